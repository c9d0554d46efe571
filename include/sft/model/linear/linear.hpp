// SPDX-License-Identifier: Apache-2.0
#pragma once
// A linear layer, forward and backward: y = x weight^T [+ bias] [+ adapters]. T tokens, M columns in, N columns out,
// all local. And the buffers in which all adapters work.
//
// The T tokens may be a part of a pass's, beginning with its token `first_token`: then adapters drop what they would
// drop in all of them at once.

#include <array>
#include <cstdint>

#include "sft/config/config.hpp"
#include "sft/device/arena.hpp"
#include "sft/model/architecture.hpp"
#include "sft/model/context.hpp"
#include "sft/model/linear/fp8_buffers.hpp"
#include "sft/ops/shapes.hpp"
#include "sft/tensor/tensor.hpp"

namespace sft::model {

/// What the passes of LoRA adapters share: scratch memory, and the dropout of the micro-batch. Pure:
/// planning lays it out without a device.
class AdapterBuffers {
 public:
  /// At most `mlp_tile_tokens` tokens pass the layers of an MLP at a time.
  AdapterBuffers(const config::Lora& lora, const ops::Shapes& shapes, std::int64_t mlp_tile_tokens,
                 std::int64_t num_blocks);

  /// Takes nothing without use_peft; call with sizing arenas, then with real ones. `tp_sums`: for what is summed over
  /// tp.
  void lay_out(device::Arena& workspace, device::Arena& tp_sums);

  /// Share of the inputs to drop; 0 while no seed is set.
  [[nodiscard]] float dropout() const { return seed_.empty() ? 0.0F : dropout_; }
  [[nodiscard]] const Tensor& seed() const { return seed_; }
  /// Seeds the dropout of the next pass, as ops::Dropout has seeds; empty: nothing is dropped.
  void set_seed(const Tensor& seed) { seed_ = seed; }

  // Scratch memory for T = `num_tokens` tokens, compute dtype.
  /// (T, R): the product in the middle of an adapter of `rank`, and its gradient.
  [[nodiscard]] Tensor low(std::int64_t num_tokens, std::int64_t rank) const {
    return low_.rows(0, num_tokens * rank).view({num_tokens, rank});
  }
  [[nodiscard]] Tensor low_grad(std::int64_t num_tokens, std::int64_t rank) const {
    return low_grad_.rows(0, num_tokens * rank).view({num_tokens, rank});
  }
  /// (T, columns): an input that was partly dropped, or its gradient. `columns` at most those of the widest layer that
  /// so many tokens pass; empty without dropout.
  [[nodiscard]] Tensor input(std::int64_t num_tokens, std::int64_t columns) const {
    return view_of(input_, num_tokens, columns);
  }

  // Of adapters with magnitudes; empty without.
  /// (T, N), compute dtype: what a weight gives, or its gradient.
  [[nodiscard]] Tensor output(std::int64_t num_tokens, std::int64_t rows) const {
    return view_of(output_, num_tokens, rows);
  }
  /// (N, R), float32: products of a weight's rows with those of A.
  [[nodiscard]] Tensor row_products(std::int64_t rows, std::int64_t rank) const {
    return view_of(row_products_, rows, rank);
  }
  /// (R, R), compute dtype: products of A's rows.
  [[nodiscard]] Tensor gram(std::int64_t rank) const { return view_of(gram_, rank, rank); }
  /// (N), float32: squares of the norms of rows, to be summed over tp.
  [[nodiscard]] Tensor squares(std::int64_t rows) const { return squares_.rows(0, rows); }
  /// (N), float32, of the adapter for the whole pass: magnitude / norm, and 1 / norm.
  [[nodiscard]] Tensor factors(const Adapter& adapter, std::int64_t rows) const;
  [[nodiscard]] Tensor inverse_norms(const Adapter& adapter, std::int64_t rows) const;

 private:
  static Tensor view_of(const Tensor& memory, std::int64_t rows, std::int64_t columns) {
    return memory.rows(0, rows * columns).view({rows, columns});
  }
  /// Rows of the weights of a block's layers, in the order of their adapters' numbers.
  [[nodiscard]] std::array<std::int64_t, 7> rows_of_block() const;
  /// Where the adapter's factors begin among those of all.
  [[nodiscard]] std::int64_t first_factor(const Adapter& adapter) const;

  ops::Shapes shapes_;
  std::int64_t mlp_tile_tokens_;
  std::int64_t num_blocks_;
  std::int64_t rank_;  ///< the largest; 0 without use_peft
  float dropout_;
  bool has_magnitudes_;
  Tensor seed_;
  Tensor low_, low_grad_, input_;
  Tensor output_, row_products_, gram_, squares_, factors_, inverse_norms_;
};

/// Heads (T, K, D) as the columns (T, K D) of a layer.
[[nodiscard]] Tensor as_matrix(const Tensor& heads);

/// The norms of the rows of W + scale b a, float32 (N), in AdapterBuffers::factors of the adapter, which has a
/// magnitude; the layer's unit is in use. Collective over the tp group.
[[nodiscard]] Tensor weight_norms(const Context& context, const Linear& layer, const Adapter& adapter);
/// Finds the factors of the layer's adapters that have magnitudes, before the first use of the layer in a micro-batch;
/// its unit is in use. Collective over the tp group.
void prepare_magnitudes(const Context& context, const Linear& layer);

/// y (T, N) of x (T, M); the layer's unit is in use, and its magnitudes are prepared.
void linear_forward(const Context& context, const Linear& layer, Tensor y, const Tensor& x,
                    std::int64_t first_token = 0);
/// This rank's part of y (T, N) of a layer whose columns are split over tp: the sum over tp is y, which has the bias
/// once.
void linear_forward_partial(const Context& context, const Linear& layer, Tensor y, const Tensor& x,
                            std::int64_t first_token = 0);
/// dx (T, M) = dy weight; the layer's unit is in use. It comes before linear_backward_weight, under which the sum of dx
/// over tp and the next gather can run. `codes`: this and linear_backward_weight of the same dy get the same, in fp8 to
/// round it once; null: each rounds it.
void linear_backward_input(const Context& context, const Linear& layer, Tensor dx, const Tensor& dy,
                           std::int64_t first_token = 0, GradientCodes* codes = nullptr);
/// Writes the gradients of weight and bias, as far as they are trained, and of the adapters, from dy (T, N) and
/// x (T, M).
void linear_backward_weight(const Context& context, const Linear& layer, const Tensor& dy, const Tensor& x,
                            std::int64_t first_token = 0, GradientCodes* codes = nullptr);

// The same by slices of the weight, for the same x or dy, which stays as it is meanwhile, of all tokens of a pass. On
// CPUs the bits are those of the whole product: in fp8 both operands are rounded whole, once, when the object is made,
// which is collective over the tp group. Its unit is in use until the last slice.

/// Columns of y (T, N) = x weight^T that belong to some rows of the weight. Of one object in use at a time; beside it
/// there may be one of LinearColumns.
class LinearRows {
 public:
  LinearRows(const Context& context, const Linear& layer, const Tensor& x);

  struct Slice {
    std::int64_t begin, count;
  };
  /// y (T, rows.count).
  void forward(const Context& context, Slice rows, const Tensor& y) const;

 private:
  const Linear& layer_;
  Tensor x_;
  Fp8Operands operands_;  ///< of nothing but fp8
};

/// Columns of dx (T, M) = dy weight. In fp8 no other product comes between its slices but those of LinearRows. `codes`
/// as of linear_backward_input.
class LinearColumns {
 public:
  LinearColumns(const Context& context, const Linear& layer, const Tensor& dy, GradientCodes* codes);

  /// dx (T, n): those from `first_column` on.
  void backward_input(const Context& context, std::int64_t first_column, const Tensor& dx) const;

 private:
  const Linear& layer_;
  Tensor dy_;
  Fp8Operands operands_;  ///< of nothing but fp8
};

}  // namespace sft::model
