// SPDX-License-Identifier: Apache-2.0
#pragma once
// Vocabulary-parallel cross-entropy (Shoeybi et al. 2019) of a chunk of T tokens, in three steps; the caller reduces
// max (by maximum), then partials (by sum), over tp between them. And the cap of logits before it.

#include <cstdint>

#include "sft/ops/describe.hpp"
#include "sft/ops/pass.hpp"
#include "sft/tensor/tensor.hpp"

namespace sft::ops {

/// x = cap tanh(x / cap) (Gemma 2).
struct SoftCap {
  static constexpr const char* name = "soft_cap";
  static constexpr Pass pass = Pass::loss_forward;
  Tensor x;   ///< float32
  float cap;  ///< above 0

  template <class Visitor>
  void describe(Visitor& op) const {
    op.add("x", x, "...", Types::float32);
    op.scalar("cap", cap);
    op.require(cap > 0.0F, "cap is not above 0");
  }
};

/// The loss of a token, of the probability p that the model gives its target.
struct TokenLoss {
  /// -p log(p), whose first factor has no gradient (Dynamic Fine-Tuning, Wu et al. 2025), in place of -log(p).
  bool dft = false;
  /// The share of the loss that is the mean of -log(p) over the whole vocabulary (Szegedy et al. 2016). 0 with dft.
  double label_smoothing = 0.0;
  std::int64_t vocab = 0;  ///< ids of the whole vocabulary; needed with label_smoothing

  /// Sums over the vocabulary that a token's loss takes: rows of CrossEntropy::partials.
  [[nodiscard]] int num_partials() const { return label_smoothing > 0 ? 4 : 3; }
};

/// The chunk; its three steps say which of it each reads and writes.
struct CrossEntropy {
  Tensor logits;  ///< (T, V) float32; after CrossEntropyPartials it holds exp(logit - max)
  Tensor max;     ///< (T) float32: maximum over the whole vocabulary once reduced over tp
  /// (3, T) float32: sum exp(x - max); the target's logit or 0; sum exp(x - max) (x - max). With label smoothing (4,
  /// T): and sum (x - max).
  Tensor partials;
  ConstTensor targets;       ///< (T) int32 global token ids; any value where the weight is 0
  ConstTensor loss_weights;  ///< (T) float32
  std::int64_t vocab_begin;  ///< global id of the first column
  TokenLoss loss = {};
  float logit_cap = 0.0F;  ///< of SoftCap, by which the logits came: dlogits are those before it; 0: there was none

  /// All but the tensors that steps write: logits, max and partials.
  template <class Visitor>
  void describe_rest(Visitor& op) const {
    op.in("targets", targets, "T", Types::int32);
    op.in("loss_weights", loss_weights, "T", Types::float32);
    op.scalar("vocab_begin", vocab_begin);
    op.scalar("loss.dft", loss.dft);
    op.scalar("loss.label_smoothing", loss.label_smoothing);
    op.scalar("loss.vocab", loss.vocab);
    op.scalar("logit_cap", logit_cap);
    op.require(!loss.dft || loss.label_smoothing == 0.0, "loss has smoothing, which does not go with dft");
    op.require(loss.label_smoothing == 0.0 || loss.vocab >= logits.shape[1],
               "loss has smoothing, which needs the size of the whole vocabulary");
  }
};

/// Reads logits; writes max: of this rank's columns.
struct CrossEntropyMax {
  static constexpr const char* name = "cross_entropy_max";
  static constexpr Pass pass = Pass::sum_squares;
  CrossEntropy chunk;

  template <class Visitor>
  void describe(Visitor& op) const {
    op.in("logits", chunk.logits, "T V", Types::float32);
    op.out("max", chunk.max, "T", Types::float32);
    op.dim('P', chunk.loss.num_partials());
    op.unread("partials", chunk.partials, "P T", Types::float32);
    chunk.describe_rest(op);
  }
};

/// Reads logits, max (reduced), targets and vocab_begin; writes partials, of this rank's columns, and overwrites logits
/// with exp(logit - max).
struct CrossEntropyPartials {
  static constexpr const char* name = "cross_entropy_partials";
  static constexpr Pass pass = Pass::loss_forward;
  CrossEntropy chunk;

  template <class Visitor>
  void describe(Visitor& op) const {
    op.add("logits", chunk.logits, "T V", Types::float32);
    op.in("max", chunk.max, "T", Types::float32);
    op.dim('P', chunk.loss.num_partials());
    op.out("partials", chunk.partials, "P T", Types::float32);
    chunk.describe_rest(op);
  }
};

/// dlogits = gradient_scale * weight * the gradient of the token's loss, softmax - onehot for the plain one, the
/// product of the first two formed in double: the one may exceed what float32 holds where the other is tiny. metrics +=
/// sum w loss; sum over w > 0 of 1, of (the target has the largest logit), of the entropy of the prediction, in nats.
/// Only tokens with w > 0 count. Reads all of chunk, with max and partials reduced; writes none of it but logits, where
/// dlogits are these.
struct CrossEntropyFinish {
  static constexpr const char* name = "cross_entropy_finish";
  static constexpr Pass pass = Pass::loss_backward;
  static constexpr bool repeats = false;
  CrossEntropy chunk;
  Tensor dlogits;  ///< (T, V) compute dtype, may be the logits when float32; empty: not wanted
  double gradient_scale;
  Tensor metrics;  ///< (4) float64

  template <class Visitor>
  void describe(Visitor& op) const {
    op.in("logits", chunk.logits, "T V", Types::float32);
    op.in("max", chunk.max, "T", Types::float32);
    op.dim('P', chunk.loss.num_partials());
    op.in("partials", chunk.partials, "P T", Types::float32);
    chunk.describe_rest(op);
    op.out("dlogits", dlogits, "T V", Types::any, optional);
    op.add("metrics", metrics, "4", Types::float64);
    op.scalar("gradient_scale", gradient_scale);
    op.may_be("dlogits", "logits");
  }
};

}  // namespace sft::ops
