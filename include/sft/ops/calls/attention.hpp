// SPDX-License-Identifier: Apache-2.0
#pragma once
// Softmax attention in blocks (Dao 2023), grouped queries: query head h reads key/value head h / (H / K).

#include <cstdint>
#include <vector>

#include "sft/ops/calls/rope.hpp"
#include "sft/ops/describe.hpp"
#include "sft/ops/pass.hpp"
#include "sft/tensor/tensor.hpp"

namespace sft::ops {

/// Attention spans in the form that the kernels of one backend read; see Backend::plan_attention.
class AttentionPlan {
 public:
  /// For T queries and Tk keys.
  AttentionPlan(std::int64_t num_queries, std::int64_t num_keys) : num_queries_(num_queries), num_keys_(num_keys) {}
  AttentionPlan(const AttentionPlan&) = delete;
  AttentionPlan& operator=(const AttentionPlan&) = delete;
  virtual ~AttentionPlan() = default;

  [[nodiscard]] std::int64_t num_queries() const { return num_queries_; }
  [[nodiscard]] std::int64_t num_keys() const { return num_keys_; }
  /// All that calls with this plan take from it when they are queued: two calls that differ in nothing but plans of the
  /// same words queue the same work, which finds the spans in device memory when it runs. Empty: no other call queues
  /// what calls with this plan do.
  [[nodiscard]] virtual std::vector<std::uint64_t> launch_words() const { return {}; }

 private:
  std::int64_t num_queries_, num_keys_;
};

/// Queries, keys and values as a part of a call: q (T, H, D), k and v (Tk, K, D).
template <class Visitor, class Attention>
void describe_queries_and_keys(Visitor& op, const Attention& attention) {
  const ConstTensor &q = attention.q, &k = attention.k;
  op.in("q", q, "T H D", Types::compute, strided);
  op.in("k", k, "U K D", Types::compute, strided);
  op.in("v", attention.v, "U K D", Types::compute, strided);
  op.plan(attention.plan, 'T', 'U');
  op.scalar("scale", attention.scale);
  op.scalar("softcap", attention.softcap);
  op.require(q.shape[2] > 0 && q.shape[2] % 2 == 0 && q.shape[2] <= max_head_dim,
             "q has a head dim that is odd or above 256");
  op.require(k.shape[1] > 0 && q.shape[1] % k.shape[1] == 0, "q has heads that are no multiple of those of k");
  op.require(attention.softcap >= 0.0F, "softcap is negative");
}

/// Softmax attention of the queries over the keys that the plan's spans let them see. H is a multiple of K. The score
/// of a query and a key is their product times scale or, with a softcap c, c tanh(that / c) (Gemma 2). With `merge`,
/// out and lse hold the result over the keys of earlier calls (0 and -inf where there was none) and become that over
/// all; out is float32 then. Else both are overwritten, queries outside the plan's spans with 0 and -inf.
///
/// A sink is the score of one more key, of value 0, for every query of its head within the plan's spans (gpt-oss, after
/// Xiao et al. 2024). It belongs to one call of those that are merged, the first.
struct AttentionForward {
  static constexpr const char* name = "attention_forward";
  ConstTensor q;  ///< (T, H, D) compute dtype, strided
  ConstTensor k;  ///< (Tk, K, D) compute dtype, strided
  ConstTensor v;  ///< (Tk, K, D) compute dtype, strided
  Tensor out;     ///< (T, H, D) compute dtype or float32, strided
  Tensor lse;     ///< (T, H) float32
  float scale;
  const AttentionPlan& plan;
  bool merge = false;
  float softcap = 0.0F;    ///< 0: none
  ConstTensor sinks = {};  ///< (H) float32 or bf16; empty: none, as with `merge`

  template <class Visitor>
  void describe(Visitor& op) const {
    describe_queries_and_keys(op, *this);
    if (merge) {
      op.add("out", out, "T H D", Types::float32, strided);
      op.add("lse", lse, "T H", Types::float32);
    } else {
      op.out("out", out, "T H D", Types::compute_or_float32, strided);
      op.out("lse", lse, "T H", Types::float32);
    }
    op.in("sinks", sinks, "H", Types::any, optional);
    op.scalar("merge", merge);
    op.require(sinks.empty() || !merge, "sinks belong to the first call of those that are merged");
  }
};

/// delta = the sum over D of out * dout.
struct AttentionDelta {
  static constexpr const char* name = "attention_delta";
  static constexpr Pass pass = Pass::add;
  Tensor delta;           ///< (T, H) float32
  ConstTensor out, dout;  ///< (T, H, D) compute dtype, strided

  template <class Visitor>
  void describe(Visitor& op) const {
    op.in("out", out, "T H D", Types::compute, strided);
    op.in("dout", dout, "T H D", Types::compute, strided);
    op.out("delta", delta, "T H", Types::float32);
  }
};

/// Gradients of the attention over the plan's spans; probabilities are formed again from the final lse, over the keys
/// of all calls of the forward pass. With accumulate_dq or accumulate_dkv the gradients are added to what dq, or dk and
/// dv, hold; they are float32 then. Else they are overwritten, rows outside the plan's spans with 0.
struct AttentionBackward {
  static constexpr const char* name = "attention_backward";
  ConstTensor q, k, v;     ///< as in the forward pass
  ConstTensor dout;        ///< (T, H, D) compute dtype, strided
  ConstTensor lse, delta;  ///< (T, H) float32; the final log-sum-exp, and AttentionDelta's
  Tensor dq;               ///< (T, H, D) compute dtype or float32, strided
  Tensor dk, dv;           ///< (Tk, K, D) compute dtype or float32, both the same; strided
  float scale;
  const AttentionPlan& plan;
  bool accumulate_dq = false, accumulate_dkv = false;
  float softcap = 0.0F;  ///< as in the forward pass
  ConstTensor out = {};  ///< (T, H, D) compute dtype, strided: the final output, for a library; empty: not at hand

  template <class Visitor>
  void describe(Visitor& op) const {
    describe_queries_and_keys(op, *this);
    op.in("dout", dout, "T H D", Types::compute, strided);
    op.in("out", out, "T H D", Types::compute, strided | optional);
    op.in("lse", lse, "T H", Types::float32);
    op.in("delta", delta, "T H", Types::float32);
    accumulate_dq ? op.add("dq", dq, "T H D", Types::float32, strided)
                  : op.out("dq", dq, "T H D", Types::compute_or_float32, strided);
    if (accumulate_dkv) {
      op.add("dk", dk, "U K D", Types::float32, strided);
      op.add("dv", dv, "U K D", Types::float32, strided);
    } else {
      op.out("dk", dk, "U K D", Types::compute_or_float32, strided);
      op.out("dv", dv, "U K D", Types::compute_or_float32, strided);
    }
    op.require(dk.dtype == dv.dtype, "dk and dv have other dtypes");
    op.scalar("accumulate_dq", accumulate_dq);
    op.scalar("accumulate_dkv", accumulate_dkv);
  }
};

/// dsinks += the gradient of the sinks, -sum over T of exp(sink - lse) delta; queries with a log-sum-exp of -inf have
/// none.
struct AttentionSinksBackward {
  static constexpr const char* name = "attention_sinks_backward";
  static constexpr Pass pass = Pass::add;
  Tensor dsinks;           ///< (H) float32
  ConstTensor sinks;       ///< (H) float32 or bf16
  ConstTensor lse, delta;  ///< (T, H) float32; the final log-sum-exp, and AttentionDelta's

  template <class Visitor>
  void describe(Visitor& op) const {
    op.in("lse", lse, "T H", Types::float32);
    op.in("delta", delta, "T H", Types::float32);
    op.in("sinks", sinks, "H", Types::any);
    op.add("dsinks", dsinks, "H", Types::float32);
  }
};

}  // namespace sft::ops
