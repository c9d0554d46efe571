// SPDX-License-Identifier: Apache-2.0
#pragma once
// A layer of a block: attention, an MLP, or what else reads the residual stream and adds to it. It owns all of its
// life: its parameters (declared by its constructor through a UnitBuilder), its memory, its passes, its step of
// generation and the work that it is. The block around it has the residual stream, the norms and the sums over tp of
// what it adds.

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "sft/core/index.hpp"
#include "sft/model/linear/parameters.hpp"
#include "sft/model/sublayer_tensors.hpp"
#include "sft/ops/shapes.hpp"
#include "sft/sequence/attention.hpp"

namespace sft::model {

struct BlockScratch;
struct Context;
struct Sizes;
class CachedAttention;
class Fp8Buffers;

/// A text of which a pass of generation reads further tokens.
struct TextSoFar {
  const SublayerTensors& state;  ///< what the sublayer keeps of it: Sublayer::text_state
  std::int64_t num_tokens;       ///< that were read before; 0: `state` is yet to begin, whatever it holds
  CachedAttention& attention;    ///< Context::attention
};

/// Tokens of a step, of all ranks.
struct TokenCounts {
  double num_tokens = 0.0;
  double length_squares = 0.0;  ///< sum of the squared lengths of documents
  /// By kind of attention, what its window hides of these squares.
  const IndexedVector<sequence::AttentionKind, double>& masked_squares;
};

/// Forward and backward are collective over the tp and sp groups, within the unit that has the parameters, which is in
/// use. `own` has the memory of tensors().
class Sublayer {
 public:
  Sublayer() = default;
  Sublayer(const Sublayer&) = delete;
  Sublayer& operator=(const Sublayer&) = delete;
  virtual ~Sublayer() = default;

  /// The linear layers, which adapters, 4 bits and products in fp8 are for, in the order of their adapters.
  [[nodiscard]] const std::vector<Linear>& linear_layers() const { return linears_; }
  [[nodiscard]] std::vector<Linear>& linear_layers() { return linears_; }

  /// The tensors that the passes work in, on a rank of `sizes`.
  [[nodiscard]] virtual std::vector<SublayerTensor> tensors(const Sizes& sizes,
                                                            const ActivationPolicy& policy) const = 0;
  /// Tokens that its linear layers get at a time, at most.
  [[nodiscard]] virtual std::int64_t pass_tokens(const Sizes& sizes, const ActivationPolicy& policy) const;
  /// Raises `shapes` to what its ops are called with, where sizes that all layers share do not say it.
  virtual void fit_shapes(const Sizes& /*sizes*/, ops::Shapes& /*shapes*/) const {}
  /// Makes room for its products in fp8.
  virtual void fit_fp8(const Sizes& sizes, const ActivationPolicy& policy, Fp8Buffers& buffers) const;

  /// scratch.delta (T, C) = this rank's term of what the sublayer gives for scratch.normed (T, C):
  /// TensorParallel::reduce follows. `own` gets what backward() reads, as far as the policy keeps it.
  virtual void forward(const Context& context, SublayerTensors& own, BlockScratch& scratch) const = 0;
  /// Computes again, from what the policy keeps, with the same bits, what backward() reads and does not compute again
  /// by itself, and with `gives_delta` scratch.delta, which the next sublayer of the block follows from. `read_normed`
  /// writes scratch.normed again and gathers it over tp: it is called once at most. Not called where all is kept.
  virtual void recompute(const Context& context, const ActivationPolicy& policy, SublayerTensors& own,
                         BlockScratch& scratch, const std::function<void()>& read_normed, bool gives_delta) const;
  /// From scratch.dbranch (T, C), the gradient of what the sublayer gives: the slice of scratch.dnormed (T, C), summed
  /// over tp, and the gradients of its parameters. `start_normed` writes scratch.normed again and starts its gather
  /// over tp (TensorParallel::finish ends it): it is called once. With scratch.shares_branch_memory gradients of
  /// weights come first.
  virtual void backward(const Context& context, SublayerTensors& own, BlockScratch& scratch,
                        const std::function<void()>& start_normed) const = 0;

  /// The tensors that a text of at most `max_tokens` tokens leaves for its next token, where it is generated. Rows of
  /// tokens (rows_of_token above 0) are cut with the text; a tensor of the whole text is not, so that the text is read
  /// again from its start.
  [[nodiscard]] virtual std::vector<SublayerTensor> text_state(const Sizes& sizes, std::int64_t max_tokens) const;
  /// forward() of tokens that follow a text.
  virtual void generate(const Context& context, SublayerTensors& own, BlockScratch& scratch,
                        const TextSoFar& text) const;

  /// The kind of its attention, by which ranks of sp send each other keys and values; none: it does not attend.
  [[nodiscard]] virtual std::optional<sequence::AttentionKind> attention_kind() const { return {}; }
  /// Weights that a token of the whole model is multiplied with.
  [[nodiscard]] virtual double matmul_weights() const;
  /// FLOPs, forward and backward, of all but products with weights.
  [[nodiscard]] virtual double core_flops(const TokenCounts& tokens) const;

 protected:
  std::vector<Linear> linears_;
};

}  // namespace sft::model
