// SPDX-License-Identifier: Apache-2.0
#pragma once
// The products of a low-rank adapter, and what it drops of its input.

#include <cstdint>

#include "sft/model/context.hpp"
#include "sft/model/linear/parameters.hpp"

namespace sft::model {

/// The columns of y, or of its gradient, that belong to the adapter's matrix.
[[nodiscard]] Tensor columns_of(const Context& c, const Linear& layer, const Adapter& adapter, const Tensor& y);
/// W (N, M) of the adapter.
[[nodiscard]] Tensor weight_of(const Context& c, const Linear& layer, const Adapter& adapter);
/// out = or += what the adapter keeps of `in`, which lies `first_index` elements behind the start of its input. Every
/// adapter drops its own elements; ranks of tp that hold the same columns of x drop the same ones.
void drop(const Context& c, const Adapter& adapter, const Tensor& out, const Tensor& in, std::int64_t first_index,
          bool accumulate);
/// x (T, M) as the adapter sees it, after dropout; its first row is token `first_token`.
[[nodiscard]] Tensor dropped(const Context& c, const Adapter& adapter, const Tensor& x, std::int64_t first_token);
/// scale a x (T, R).
[[nodiscard]] Tensor low_forward(const Context& c, const Adapter& adapter, const Tensor& x);
/// The gradient of a x: scale b^T dy (T, R), of dy (T, N).
[[nodiscard]] Tensor low_backward(const Context& c, const Adapter& adapter, const Tensor& dy);
/// y (T, n) = or, with `accumulate`, += low b^T, of the rows of b from `first_row` on.
void multiply_low(const Context& c, const Adapter& adapter, const Tensor& y, const Tensor& low, bool accumulate,
                  std::int64_t first_row = 0);
/// dx (T, n) = or, with `accumulate`, += some columns of the gradient through A and B, of dy (T, N), that of low b^T.
void low_backward_input(const Context& c, const Adapter& adapter, const Tensor& dx, const Tensor& dy, bool accumulate,
                        std::int64_t first_column = 0);
/// The gradient of a matrix, or a term that is added to it: dy^T x.
void write_gradient(const Context& c, const parallel::ParameterGroup& matrix, const Tensor& dy, const Tensor& x);

}  // namespace sft::model
