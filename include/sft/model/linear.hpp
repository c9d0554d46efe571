// SPDX-License-Identifier: Apache-2.0
#pragma once
// A linear layer, forward and backward: y = x weight^T [+ bias]. T tokens, M columns in, N columns out, all local.
//
// The T tokens may be a part of a pass's, beginning with its token `first_token`: then adapters drop what they would
// drop in all of them at once.

#include <cstdint>

#include "sft/model/architecture.hpp"
#include "sft/model/context.hpp"

namespace sft::model {

/// Heads (T, K, D) as the columns (T, K D) of a layer.
[[nodiscard]] Tensor as_matrix(const Tensor& heads);

/// y (T, N) of x (T, M); the layer's unit is in use.
void linear_forward(const Context& context, const Linear& layer, Tensor y, const Tensor& x,
                    std::int64_t first_token = 0);
/// This rank's part of y (T, N) of a layer whose columns are split over tp: the sum over tp is y, which has the bias
/// once.
void linear_forward_partial(const Context& context, const Linear& layer, Tensor y, const Tensor& x,
                            std::int64_t first_token = 0);
/// dx (T, M) = dy weight; the layer's unit is in use. It comes before linear_backward_weight, under which the sum of dx
/// over tp and the next gather can run.
void linear_backward_input(const Context& context, const Linear& layer, Tensor dx, const Tensor& dy,
                           std::int64_t first_token = 0);
/// Writes the gradients of weight and bias from dy (T, N) and x (T, M): of those that are trainable.
void linear_backward_weight(const Context& context, const Linear& layer, const Tensor& dy, const Tensor& x,
                            std::int64_t first_token = 0);

}  // namespace sft::model
