// SPDX-License-Identifier: Apache-2.0
#pragma once
// A linear layer, forward and backward: y = x weight^T [+ bias] [+ adapters]. T tokens, M columns in, N columns out,
// all local.
//
// The T tokens may be a part of a pass's, beginning with its token `first_token`: then adapters drop what they would
// drop in all of them at once.

#include <cstdint>

#include "sft/model/context.hpp"
#include "sft/model/linear/fp8_buffers.hpp"
#include "sft/model/linear/parameters.hpp"
#include "sft/tensor/tensor.hpp"

namespace sft::model {

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
