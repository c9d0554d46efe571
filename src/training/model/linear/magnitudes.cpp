// SPDX-License-Identifier: Apache-2.0
#include "model/linear/magnitudes.hpp"

#include <algorithm>

#include "model/linear/low_rank.hpp"
#include "sft/model/linear/adapter_buffers.hpp"
#include "sft/model/linear/linear.hpp"

namespace sft::model {

namespace {

/// All adapters of a model have magnitudes, or none has.
bool has_magnitudes(const Linear& layer) {
  return !layer.adapters.empty() && layer.adapters.front().magnitude.exists();
}

/// squares (N) of the norms of the rows of W + scale b a: |W|^2 + 2 scale b (W a^T) + scale^2 b (a a^T) b, row by row,
/// which takes no matrix of W's size.
Tensor squares_of_norms(const Context& c, const Linear& layer, const Adapter& adapter) {
  const Tensor weight = weight_of(c, layer, adapter), a = c.units.parameter(adapter.a),
               b = c.units.parameter(adapter.b);
  const std::int64_t num_rows = b.shape[0], rank = b.shape[1];
  const Tensor squares = c.adapters.squares(num_rows), products = c.adapters.row_products(num_rows, rank),
               gram = c.adapters.gram(rank);
  c.ops.run(ops::Fill{squares, 0.0F});
  c.ops.run(ops::AddRowProducts{.sums = squares, .a = weight, .b = weight});
  c.ops.run(ops::Matmul{.a = weight, .b = a, .c = products, .transpose_b = true});
  c.ops.run(ops::AddRowProducts{.sums = squares, .a = products, .b = b, .factor = 2.0F * adapter.scale});
  c.ops.run(ops::Matmul{.a = a, .b = a, .c = gram, .transpose_b = true});
  c.ops.run(ops::Matmul{.a = b, .b = gram, .c = products});
  c.ops.run(ops::AddRowProducts{.sums = squares, .a = products, .b = b, .factor = adapter.scale * adapter.scale});
  if (adapter.splits_input) c.tp.sum(squares);
  return squares;
}

/// Factors and inverse norms of the adapter, of `magnitudes` (N) in place of its own.
void find_factors(const Context& c, const Adapter& adapter, const Tensor& magnitudes, const Tensor& squares) {
  const std::int64_t num_rows = squares.shape[0];
  c.ops.run(ops::MagnitudeFactors{.factors = c.adapters.factors(adapter, num_rows),
                                  .inverse_norms = c.adapters.inverse_norms(adapter, num_rows),
                                  .magnitudes = magnitudes,
                                  .squares = squares});
}

}  // namespace

bool scales_gradient(const Context& c, const Linear& layer) {
  return has_magnitudes(layer) && c.adapters.dropout() == 0.0F;
}

Tensor scaled_columns(const Context& c, const Adapter& adapter, const Tensor& dy, float shift) {
  const Tensor result = c.adapters.output(dy.shape[0], dy.shape[1]);
  c.ops.run(
      ops::ScaleColumns{.out = result, .in = dy, .factors = c.adapters.factors(adapter, dy.shape[1]), .shift = shift});
  return result;
}

void add_magnitude_adapter(const Context& c, const Linear& layer, const Adapter& adapter, const Tensor& y,
                           const Tensor& x, const Tensor& bias, std::int64_t first_token, std::int64_t first_row) {
  const std::int64_t num_rows = y.shape[1];
  const Tensor factors = c.adapters.factors(adapter, c.units.parameter(adapter.b).shape[0]).rows(first_row, num_rows);
  const auto add = [&](const Tensor& product, float shift, const Tensor& its_bias) {
    c.ops.run(ops::ScaleColumns{
        .out = y, .in = product, .factors = factors, .shift = shift, .bias = its_bias, .accumulate = true});
  };
  if (c.adapters.dropout() == 0.0F) {
    multiply_low(c, adapter, y, low_forward(c, adapter, x), /*accumulate=*/true, first_row);
    add(y, -1.0F, bias);
    return;
  }
  const Tensor input = dropped(c, adapter, x, first_token), product = c.adapters.output(y.shape[0], num_rows);
  const Tensor weight = weight_of(c, layer, adapter).rows(first_row, num_rows);
  c.ops.run(ops::Matmul{.a = input, .b = weight, .c = product, .transpose_b = true});
  add(product, -1.0F, {});
  multiply_low(c, adapter, product, low_forward(c, adapter, input), /*accumulate=*/false, first_row);
  add(product, 0.0F, {});
}

void scaled_backward_input(const Context& c, const Linear& layer, const Tensor& dx, const Tensor& dy,
                           std::int64_t first_column) {
  const Tensor weight = c.units.parameter(layer.weight);
  for (int member = 0; member < layer.weight.count; ++member) {
    const std::int64_t begin = c.units.first_row(layer.weight, member);
    const bool is_last = member + 1 == layer.weight.count;
    const std::int64_t count = (is_last ? dy.shape[1] : c.units.first_row(layer.weight, member + 1)) - begin;
    const auto adapter = std::ranges::find(layer.adapters, member, &Adapter::member);
    const Tensor columns = dy.columns(begin, count);
    const bool has_adapter = adapter != layer.adapters.end();
    const Tensor dproduct = has_adapter ? scaled_columns(c, *adapter, columns, 0.0F) : columns;
    const Tensor of_columns = weight.rows(begin, count).columns(first_column, dx.shape[1]);
    c.ops.run(ops::Matmul{.a = dproduct, .b = of_columns, .c = dx, .accumulate = member > 0});
    if (has_adapter) low_backward_input(c, *adapter, dx, dproduct, /*accumulate=*/true, first_column);
  }
}

void magnitude_backward(const Context& c, const Linear& layer, const Tensor& dy, const Adapter& adapter,
                        const Tensor& input, const Tensor& low) {
  const Tensor product = c.adapters.output(dy.shape[0], dy.shape[1]);
  c.ops.run(ops::Matmul{.a = input, .b = weight_of(c, layer, adapter), .c = product, .transpose_b = true});
  multiply_low(c, adapter, product, low, /*accumulate=*/true);
  c.ops.run(ops::AddColumnProducts{.sums = c.units.accumulated_gradient(adapter.magnitude),
                                   .a = dy,
                                   .b = product,
                                   .factors = c.adapters.inverse_norms(adapter, dy.shape[1])});
}

Tensor weight_norms(const Context& c, const Linear& layer, const Adapter& adapter) {
  const Tensor squares = squares_of_norms(c, layer, adapter);
  find_factors(c, adapter, squares, squares);  // x / sqrt(x)
  return c.adapters.factors(adapter, squares.shape[0]);
}

void prepare_magnitudes(const Context& c, const Linear& layer) {
  for (const Adapter& adapter : layer.adapters) {
    if (!adapter.magnitude.exists()) continue;
    find_factors(c, adapter, c.units.parameter(adapter.magnitude), squares_of_norms(c, layer, adapter));
  }
}

}  // namespace sft::model
