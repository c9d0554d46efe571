// SPDX-License-Identifier: Apache-2.0
#pragma once
// Mixtures of experts (Shazeer et al. 2017, "Outrageously Large Neural Networks"), without dropped tokens (Gale et al.
// 2022, "MegaBlocks"): a router chooses k experts for every token, the tokens are laid out expert by expert, every
// expert multiplies its rows, and each token gets the weighted sum of its rows back.
//
// Legend, beside that of backend.hpp: E experts, k choices of a token, R rows in the order of experts, of which some
// may hold no token; N, K columns. Choice j of token t is number t k + j. All tensors are contiguous unless a comment
// says "strided". All sums are formed in one order: the same call gives the same bits.

#include <cstdint>
#include <span>

#include "sft/tensor/tensor.hpp"

namespace sft::ops {

inline constexpr std::int64_t max_experts = 1024, max_expert_choices = 32, max_ordered_choices = std::int64_t{1} << 20;

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
};

/// k is at most max_expert_choices and the experts of the chosen groups, E at most max_experts.
struct RouterForward {
  ConstTensor logits;      ///< (T, E) float32
  ConstTensor correction;  ///< (E) float32, added to sigmoid scores for the choice alone; empty: none
  Tensor experts;          ///< (T, k) int32, each expert at most once in a row, the best first
  Tensor weights;          ///< (T, k) float32
  RouterRule rule;
};

/// dlogits = the gradient through the weights. The choice has none.
struct RouterBackward {
  Tensor dlogits;        ///< (T, E) float32
  ConstTensor logits;    ///< (T, E) float32, of the forward pass, and so
  ConstTensor experts;   ///< (T, k) int32
  ConstTensor dweights;  ///< (T, k) float32
  RouterRule rule;
};

/// What the auxiliary loss of a router (Fedus et al. 2021, "Switch Transformers") follows from: counts of choices, and
/// sums of the softmax over all experts. With both added up over all layers and all ranks that hold other tokens, and M
/// tokens times layers in all, it is E * sum over e of (counts[e] / M) * (probabilities[e] / M), as
/// load_balancing_loss_func of `transformers` has it; a token that is padding there is none here.
struct RouterSums {
  ConstTensor logits;         ///< (T, E) float32
  ConstTensor expert_counts;  ///< (E) int32, of ExpertOrder
  Tensor counts;              ///< (E) float64, "+="
  Tensor probabilities;       ///< (E) float64, "+="
};

/// dlogits += the gradient of the auxiliary loss, which only the probabilities have.
struct RouterSumsBackward {
  Tensor dlogits;      ///< (T, E) float32
  ConstTensor logits;  ///< (T, E) float32
  ConstTensor counts;  ///< (E) float64, of all layers and ranks
  double factor;       ///< coefficient * E / M^2, times what else the loss is scaled by
};

/// Lays out the choices of all tokens expert by expert, in their order. The rows of expert e begin at offsets[e], a
/// multiple of `alignment`, and end at offsets[e + 1]; its tokens come first. T k is at most max_ordered_choices. On
/// CPUs an alignment of 16 makes products of few different sizes, whose machine code is kept (cpu/matmul.hpp).
struct ExpertOrder {
  ConstTensor experts;         ///< (T, k) int32, each in [0, E)
  Tensor counts;               ///< (E) int32: choices of each expert
  Tensor offsets;              ///< (E + 1) int32
  Tensor choices;              ///< (R) int32: the choice that lies in a row; -1: none
  Tensor rows;                 ///< (T, k) int32: the row of a choice
  std::int64_t alignment = 1;  ///< a power of two; R >= T k + E (alignment - 1)
};

/// out[r] = weight * in[token of row r]; 0 where a row holds none.
struct GatherTokens {
  Tensor out;                ///< (R, C) compute dtype
  ConstTensor in;            ///< (T, C) compute dtype
  ConstTensor choices;       ///< (R) int32, of ExpertOrder
  ConstTensor weights;       ///< (T, k) float32; empty: 1
  std::int64_t num_choices;  ///< k
};

/// out[t] = or, with `accumulate`, += the sum over j, in this order and in float32, of weight * in[rows[t, j]]. It is
/// the backward pass of GatherTokens, and GatherTokens that of it.
struct CombineRows {
  Tensor out;           ///< (T, C) compute dtype or float32
  ConstTensor in;       ///< (R, C) compute dtype
  ConstTensor rows;     ///< (T, k) int32, of ExpertOrder
  ConstTensor weights;  ///< (T, k) float32; empty: 1
  bool accumulate = false;
};

/// dweights[t, j] = the sum over C of dout[t] * in[rows[t, j]]: the gradient of the weights of CombineRows.
struct CombineWeightsBackward {
  Tensor dweights;   ///< (T, k) float32
  ConstTensor dout;  ///< (T, C) compute dtype
  ConstTensor in;    ///< (R, C) compute dtype
  ConstTensor rows;  ///< (T, k) int32
};

/// Where the rows of each expert begin, and behind the last where they end: E + 1 numbers in host memory, read before
/// the call returns. On a GPU the caller copies those of ExpertOrder and waits, once a layer: cuBLAS takes sizes from
/// the host (cuBLASLt before 13.2 too). The products wait for nothing: their addresses travel as arguments of a kernel.
using ExpertOffsets = std::span<const std::int32_t>;

/// For each expert e, of its rows: c = a op(b[e]) [+ bias[e]] [+ c], as Matmul. Rows behind the last offset are left as
/// they are.
struct GroupedMatmul {
  ConstTensor a;  ///< (R, K) compute dtype
  ConstTensor b;  ///< (E, K, N) compute dtype; with transpose_b (E, N, K)
  Tensor c;       ///< (R, N) compute dtype or float32
  ExpertOffsets offsets;
  bool transpose_b = false;
  bool accumulate = false;
  ConstTensor bias{};  ///< (E, N) compute dtype; empty: none
};

/// For each expert e: dweight[e] += x^T y of its rows. With the roles of x and y as in the products of the forward
/// pass: y = a and x = dc where its weights lie as (E, N, K), else the other way round.
struct GroupedWeightGradient {
  Tensor dweight;  ///< (E, N, K) float32
  ConstTensor x;   ///< (R, N) compute dtype
  ConstTensor y;   ///< (R, K) compute dtype
  ExpertOffsets offsets;
};

/// For each expert e: dbias[e] += the column sums of its rows.
struct GroupedBiasGradient {
  Tensor dbias;    ///< (E, N) float32
  ConstTensor dy;  ///< (R, N) compute dtype
  ExpertOffsets offsets;
};

/// Gated activations beside SwiGLU, which has ops of its own.
enum class Gate : std::uint8_t {
  gelu_tanh,  ///< Gemma: act = gelu(gate) * up by the tanh approximation (Hendrycks & Gimpel 2016)
  /// gpt-oss: act = g sigmoid(alpha g) (u + 1) with g = min(gate, limit), u = up within [-limit, limit]. At a limit
  /// and beyond it the gradient is 0, as that of torch.clamp in PyTorch 2.15.
  clamped_swish,
};

struct GateRule {
  Gate gate;
  float alpha = 1.702F, limit = 7.0F;  ///< of clamped_swish
  bool interleaved = false;  ///< columns of a row are gate, up, gate, up ...; else all of gate, then all of up
};

struct GatedForward {
  Tensor act;           ///< (T, F) compute dtype
  ConstTensor gate_up;  ///< (T, 2F) compute dtype
  GateRule rule;
};

/// act is recomputed on the way.
struct GatedBackward {
  Tensor dgate_up;      ///< (T, 2F) compute dtype, may be gate_up
  Tensor act;           ///< (T, F) compute dtype, may be dact
  ConstTensor dact;     ///< (T, F) compute dtype
  ConstTensor gate_up;  ///< (T, 2F) compute dtype
  GateRule rule;
};

}  // namespace sft::ops
