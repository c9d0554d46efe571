// SPDX-License-Identifier: Apache-2.0
#pragma once
// The part of a linear layer's passes that its adapters add.

#include <cstdint>

#include "sft/model/linear/linear.hpp"

namespace sft::model {

/// Adds to y (T, rows.count), the product of x and the rows, what the layer's adapters make of x there. `bias` (N): it
/// is in y; empty: none.
void add_adapters(const Context& c, const Linear& layer, const Tensor& y, LinearRows::Slice rows, const Tensor& x,
                  std::int64_t first_token, const Tensor& bias);
/// Adds to dx (T, n), some columns of dy weight, what goes through the layer's adapters, of dy (T, N).
void add_adapters_backward(const Context& c, const Linear& layer, const Tensor& dx, const Tensor& dy,
                           std::int64_t first_token, std::int64_t first_column);
/// Writes the gradients of the adapters, of the gradient dy (T, N) of the layer's output and its input x (T, M).
void add_adapter_gradients(const Context& c, const Linear& layer, const Tensor& dy, const Tensor& x,
                           std::int64_t first_token);

}  // namespace sft::model
