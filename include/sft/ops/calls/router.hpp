// SPDX-License-Identifier: Apache-2.0
#pragma once
// The router of a mixture of experts (Shazeer et al. 2017, "Outrageously Large Neural Networks"): it chooses k experts
// for every token.
//
// Legend: T tokens, E experts, k choices of a token. All sums are formed in one order: the same call gives the same
// bits.

#include <cstdint>

#include "sft/ops/describe.hpp"
#include "sft/ops/pass.hpp"
#include "sft/tensor/tensor.hpp"

namespace sft::ops {

inline constexpr std::int64_t max_experts = 1024, max_expert_choices = 32;

enum class RouterScore : std::uint8_t {
  softmax,  ///< Mixtral, Qwen3-MoE, gpt-oss: the softmax over all experts
  sigmoid,  ///< DeepSeek-V3, GLM-4.5: of each logit by itself
};

/// How experts are chosen and weighed, as `transformers` does. Those with the largest scores are chosen, of equal ones
/// the first; softmax scores are compared by their logits, which float32 keeps apart for longer.
struct RouterRule {
  RouterScore score = RouterScore::softmax;
  /// The weights of a token are divided by their sum (norm_topk_prob). Of softmax scores this leaves the softmax over
  /// the chosen experts, which is gpt-oss's rule and Mixtral's; to the sum of sigmoid scores 1e-20 is added.
  bool normalize = false;
  float scale = 1.0F;  ///< factor of all weights (routed_scaling_factor)
  /// Neighbouring experts form groups of equal size, of two experts at least. Only those in the chosen_groups groups
  /// with the largest sums of their two largest scores may be chosen. One group: any.
  std::int64_t num_groups = 1, chosen_groups = 1;

  /// As a part of an op that chooses num_choices of num_experts.
  template <class Visitor>
  void describe(Visitor& op, std::int64_t num_experts, std::int64_t num_choices) const {
    op.scalar("rule.score", score);
    op.scalar("rule.normalize", normalize);
    op.scalar("rule.scale", scale);
    op.scalar("rule.num_groups", num_groups);
    op.scalar("rule.chosen_groups", chosen_groups);
    op.require(num_experts > 0 && num_experts <= max_experts, "logits has no experts, or too many");
    const bool has_groups = num_groups > 0 && num_groups <= max_expert_choices && num_experts % num_groups == 0;
    op.require(has_groups, "rule.num_groups does not divide the experts");
    const std::int64_t size = has_groups ? num_experts / num_groups : 0;
    op.require(num_groups == 1 || size > 1, "rule.num_groups leaves one expert for a group");
    op.require(chosen_groups > 0 && chosen_groups <= num_groups, "rule.chosen_groups is no number of groups");
    op.require(num_choices > 0 && num_choices <= max_expert_choices && num_choices <= size * chosen_groups,
               "experts has too many choices of a token, or none");
  }
};

/// k is at most max_expert_choices and the experts of the chosen groups, E at most max_experts.
struct RouterForward {
  static constexpr const char* name = "router_forward";
  static constexpr Pass pass = Pass::loss_forward;
  static constexpr bool repeats = false;
  ConstTensor logits;      ///< (T, E) float32
  ConstTensor correction;  ///< (E) float32, added to sigmoid scores for the choice alone; empty: none
  Tensor experts;          ///< (T, k) int32, each expert at most once in a row, the best first
  Tensor weights;          ///< (T, k) float32
  RouterRule rule;

  template <class Visitor>
  void describe(Visitor& op) const {
    op.in("logits", logits, "T E", Types::float32);
    op.in("correction", correction, "E", Types::float32, optional);
    op.out("experts", experts, "T k", Types::int32);
    op.out("weights", weights, "T k", Types::float32);
    rule.describe(op, logits.shape[1], experts.shape[1]);
    op.require(correction.empty() || rule.score == RouterScore::sigmoid, "correction is given with softmax scores");
  }
};

/// dlogits = the gradient through the weights. The choice has none.
struct RouterBackward {
  static constexpr const char* name = "router_backward";
  static constexpr Pass pass = Pass::loss_backward;
  static constexpr bool repeats = false;
  Tensor dlogits;        ///< (T, E) float32
  ConstTensor logits;    ///< (T, E) float32, of the forward pass, and so
  ConstTensor experts;   ///< (T, k) int32
  ConstTensor dweights;  ///< (T, k) float32
  RouterRule rule;

  template <class Visitor>
  void describe(Visitor& op) const {
    op.in("logits", logits, "T E", Types::float32);
    op.in("experts", experts, "T k", Types::int32);
    op.in("dweights", dweights, "T k", Types::float32);
    op.out("dlogits", dlogits, "T E", Types::float32);
    rule.describe(op, logits.shape[1], experts.shape[1]);
  }
};

/// Sums of which the auxiliary loss of a router (Fedus et al. 2021, "Switch Transformers") is made: counts of choices,
/// and sums of the softmax over all experts. With both added up over all layers and all ranks that hold other tokens,
/// and M tokens times layers in all, it is E * sum over e of (counts[e] / M) * (probabilities[e] / M), as
/// load_balancing_loss_func of `transformers` has it; a token that is padding there is none here.
struct RouterSums {
  static constexpr const char* name = "router_sums";
  static constexpr Pass pass = Pass::loss_forward;
  static constexpr bool repeats = false;
  ConstTensor logits;         ///< (T, E) float32
  ConstTensor expert_counts;  ///< (E) int32, of ExpertOrder
  Tensor counts;              ///< (E) float64, "+="
  Tensor probabilities;       ///< (E) float64, "+="

  template <class Visitor>
  void describe(Visitor& op) const {
    op.in("logits", logits, "T E", Types::float32);
    op.in("expert_counts", expert_counts, "E", Types::int32);
    op.add("counts", counts, "E", Types::float64);
    op.add("probabilities", probabilities, "E", Types::float64);
    op.require(logits.shape[1] > 0 && logits.shape[1] <= max_experts, "logits has no experts, or too many");
  }
};

/// dlogits += the gradient of the auxiliary loss, which only the probabilities have.
struct RouterSumsBackward {
  static constexpr const char* name = "router_sums_backward";
  static constexpr Pass pass = Pass::loss_backward;
  static constexpr bool repeats = false;
  Tensor dlogits;      ///< (T, E) float32
  ConstTensor logits;  ///< (T, E) float32
  ConstTensor counts;  ///< (E) float64, of all layers and ranks
  double factor;       ///< coefficient * E / M^2, times all else that the loss is scaled by

  template <class Visitor>
  void describe(Visitor& op) const {
    op.in("logits", logits, "T E", Types::float32);
    op.in("counts", counts, "E", Types::float64);
    op.add("dlogits", dlogits, "T E", Types::float32);
    op.scalar("factor", factor);
    op.require(logits.shape[1] > 0 && logits.shape[1] <= max_experts, "logits has no experts, or too many");
  }
};

}  // namespace sft::ops
