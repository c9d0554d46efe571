// SPDX-License-Identifier: Apache-2.0
#pragma once
// Adapters with magnitudes (DoRA, Liu et al. 2024): rows of the adapted weight have a norm that is trained.

#include <cstdint>

#include "sft/model/context.hpp"
#include "sft/model/linear/parameters.hpp"

namespace sft::model {

/// Whether the gradient of the output is scaled before it goes to the input: what adapters drop goes there unscaled.
[[nodiscard]] bool scales_gradient(const Context& c, const Linear& layer);
/// scratch (T, N) = (factors + shift) dy, column by column.
[[nodiscard]] Tensor scaled_columns(const Context& c, const Adapter& adapter, const Tensor& dy, float shift);
/// Adds what an adapter with a magnitude changes of y (T, n), the product of x and the rows of its weight from
/// `first_row` on, and of `bias` (n) if not empty.
void add_magnitude_adapter(const Context& c, const Linear& layer, const Adapter& adapter, const Tensor& y,
                           const Tensor& x, const Tensor& bias, std::int64_t first_token, std::int64_t first_row);
/// dx (T, n) = some columns of the gradient through a layer of which some outputs are scaled, matrix by matrix; nothing
/// is dropped.
void scaled_backward_input(const Context& c, const Linear& layer, const Tensor& dx, const Tensor& dy,
                           std::int64_t first_column = 0);
/// Adds to the gradient of a magnitude, of the gradient dy (T, N) of its adapter's output. `input` (T, M), and `low`
/// (T, R) of it, are what the adapter saw.
void magnitude_backward(const Context& c, const Linear& layer, const Tensor& dy, const Adapter& adapter,
                        const Tensor& input, const Tensor& low);

}  // namespace sft::model
