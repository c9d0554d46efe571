// SPDX-License-Identifier: Apache-2.0
#include "sft/model/linear/linear.hpp"

#include <algorithm>

#include "model/linear/fp8_products.hpp"
#include "sft/model/linear/adapter_buffers.hpp"

namespace sft::model {

namespace {

/// The columns of y, or of its gradient, that belong to the adapter's matrix.
Tensor columns_of(const Context& c, const Linear& layer, const Adapter& adapter, const Tensor& y) {
  const Tensor b = c.units.parameter(adapter.b);
  return y.columns(c.units.first_row(layer.weight, adapter.member), b.shape[0]);
}

/// out = or += what the adapter keeps of `in`, which lies `first_index` elements behind the start of its input. Every
/// adapter drops its own elements; ranks of tp that hold the same columns of x drop the same ones.
void drop(const Context& c, const Adapter& adapter, const Tensor& out, const Tensor& in, std::int64_t first_index,
          bool accumulate) {
  c.ops.run(ops::Dropout{.out = out,
                         .in = in,
                         .probability = c.adapters.dropout(),
                         .seed = c.adapters.seed(),
                         .number = adapter.number,
                         .part = static_cast<std::uint64_t>(adapter.splits_input ? c.tp.rank() : 0),
                         .first_index = first_index,
                         .accumulate = accumulate});
}

/// What the adapter sees of x (T, M), whose first row is token `first_token`.
Tensor dropped(const Context& c, const Adapter& adapter, const Tensor& x, std::int64_t first_token) {
  if (c.adapters.dropout() == 0.0F) return x;
  const Tensor input = c.adapters.input(x.shape[0], x.shape[1]);
  drop(c, adapter, input, x, first_token * x.shape[1], /*accumulate=*/false);
  return input;
}

/// scale a x (T, R).
Tensor low_forward(const Context& c, const Adapter& adapter, const Tensor& x) {
  const Tensor a = c.units.parameter(adapter.a), low = c.adapters.low(x.shape[0], a.shape[0]);
  c.ops.run(ops::Matmul{.a = x, .b = a, .c = low, .transpose_b = true});
  c.ops.run(ops::Scale{low, adapter.scale});
  return low;
}

/// The gradient of a x: scale b^T dy (T, R), of dy (T, N).
Tensor low_backward(const Context& c, const Adapter& adapter, const Tensor& dy) {
  const Tensor b = c.units.parameter(adapter.b), low_grad = c.adapters.low_grad(dy.shape[0], b.shape[1]);
  c.ops.run(ops::Matmul{.a = dy, .b = b, .c = low_grad});
  c.ops.run(ops::Scale{low_grad, adapter.scale});
  return low_grad;
}

/// Those of a gradient that goes into a second product, the weight's.
GradientCodes* codes_of_trained(const Context& c, const Linear& layer, GradientCodes* codes) {
  return c.units.has_gradient(layer.weight) ? codes : nullptr;
}

/// A product of the layer itself, not of its adapters: in fp8 where the run has that, but for the head. `codes`: of a,
/// if it goes into another product as well.
void multiply_own(const Context& c, const Linear& layer, const ops::Matmul& product, Fp8Operand a, Fp8Operand b,
                  GradientCodes* codes = nullptr) {
  if (layer.is_head) {
    c.ops.run(product);
  } else {
    multiply_in_fp8(c, product, a, b, b == Fp8Operand::weight ? c.units.fp8_scales(layer.weight) : Tensor(),
                    codes_of_trained(c, layer, codes));
  }
}

void write_gradient(const Context& c, const parallel::ParameterGroup& matrix, const Tensor& dy, const Tensor& x) {
  const parallel::GradientTarget target = c.units.gradient(matrix);
  c.ops.run(ops::Matmul{.a = dy, .b = x, .c = target.tensor, .transpose_a = true, .accumulate = target.accumulate});
}

/// y (T, n) = or, with `accumulate`, += low b^T, of the rows of b from `first_row` on.
void multiply_low(const Context& c, const Adapter& adapter, const Tensor& y, const Tensor& low, bool accumulate,
                  std::int64_t first_row = 0) {
  const Tensor b = c.units.parameter(adapter.b).rows(first_row, y.shape[1]);
  c.ops.run(ops::Matmul{.a = low, .b = b, .c = y, .transpose_b = true, .accumulate = accumulate});
}

/// All adapters of a model have magnitudes, or none has.
bool has_magnitudes(const Linear& layer) {
  return !layer.adapters.empty() && layer.adapters.front().magnitude.exists();
}

/// Whether the gradient of the output is scaled before it goes to the input: what adapters drop goes there unscaled.
bool scales_gradient(const Context& c, const Linear& layer) {
  return has_magnitudes(layer) && c.adapters.dropout() == 0.0F;
}

/// W (N, M) of the adapter.
Tensor weight_of(const Context& c, const Linear& layer, const Adapter& adapter) {
  const std::int64_t first = c.units.first_row(layer.weight, adapter.member);
  return c.units.parameter(layer.weight).rows(first, c.units.parameter(adapter.b).shape[0]);
}

/// scratch (T, N) = (factors + shift) dy, column by column.
Tensor scaled(const Context& c, const Adapter& adapter, const Tensor& dy, float shift) {
  const Tensor result = c.adapters.output(dy.shape[0], dy.shape[1]);
  c.ops.run(
      ops::ScaleColumns{.out = result, .in = dy, .factors = c.adapters.factors(adapter, dy.shape[1]), .shift = shift});
  return result;
}

/// Adds what an adapter with a magnitude changes of y (T, n), the product of x and the rows of its weight from
/// `first_row` on, and of `bias` (n) if not empty.
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

/// Adds to y (T, rows.count), the product of x and the rows, what the layer's adapters make of x there. `bias` (N): it
/// is in y; empty: none.
void add_adapters(const Context& c, const Linear& layer, const Tensor& y, LinearRows::Slice rows, const Tensor& x,
                  std::int64_t first_token, const Tensor& bias) {
  for (const Adapter& adapter : layer.adapters) {
    const std::int64_t first = c.units.first_row(layer.weight, adapter.member);
    const std::int64_t end = first + c.units.parameter(adapter.b).shape[0];
    const std::int64_t begin = std::max(first, rows.begin), count = std::min(end, rows.begin + rows.count) - begin;
    if (count <= 0) continue;
    const Tensor columns = y.columns(begin - rows.begin, count);
    if (adapter.magnitude.exists()) {
      const Tensor its_bias = bias.empty() ? bias : bias.rows(begin, count);
      add_magnitude_adapter(c, layer, adapter, columns, x, its_bias, first_token, begin - first);
    } else {
      multiply_low(c, adapter, columns, low_forward(c, adapter, dropped(c, adapter, x, first_token)),
                   /*accumulate=*/true, begin - first);
    }
  }
}

void multiply(const Context& c, const Linear& layer, Tensor y, const Tensor& x, bool with_bias,
              std::int64_t first_token) {
  const Tensor bias = with_bias ? c.units.parameter(layer.bias) : Tensor();
  multiply_own(c, layer, {.a = x, .b = c.units.parameter(layer.weight), .c = y, .transpose_b = true, .bias = bias},
               Fp8Operand::activation, Fp8Operand::weight);
  add_adapters(c, layer, y, {0, y.shape[1]}, x, first_token, bias);
}

/// dx (T, n) = or, with `accumulate`, += some columns of the gradient through A and B, of dy (T, N), that of low b^T.
void low_backward_input(const Context& c, const Adapter& adapter, const Tensor& dx, const Tensor& dy, bool accumulate,
                        std::int64_t first_column = 0) {
  c.ops.run(ops::Matmul{.a = low_backward(c, adapter, dy),
                        .b = c.units.parameter(adapter.a).columns(first_column, dx.shape[1]),
                        .c = dx,
                        .accumulate = accumulate});
}

/// dx (T, n) = some columns of the gradient through a layer of which some outputs are scaled, matrix by matrix; nothing
/// is dropped.
void scaled_backward_input(const Context& c, const Linear& layer, const Tensor& dx, const Tensor& dy,
                           std::int64_t first_column = 0) {
  const Tensor weight = c.units.parameter(layer.weight);
  for (int member = 0; member < layer.weight.count; ++member) {
    const std::int64_t begin = c.units.first_row(layer.weight, member);
    const bool is_last = member + 1 == layer.weight.count;
    const std::int64_t count = (is_last ? dy.shape[1] : c.units.first_row(layer.weight, member + 1)) - begin;
    const auto adapter = std::ranges::find(layer.adapters, member, &Adapter::member);
    const Tensor columns = dy.columns(begin, count);
    const bool has_adapter = adapter != layer.adapters.end();
    const Tensor dproduct = has_adapter ? scaled(c, *adapter, columns, 0.0F) : columns;
    const Tensor of_columns = weight.rows(begin, count).columns(first_column, dx.shape[1]);
    c.ops.run(ops::Matmul{.a = dproduct, .b = of_columns, .c = dx, .accumulate = member > 0});
    if (has_adapter) low_backward_input(c, *adapter, dx, dproduct, /*accumulate=*/true, first_column);
  }
}

/// dx (T, n) += some columns of the gradient through what an adapter makes of an x that was partly dropped, of
/// dy (T, N). They stand in a matrix of all columns, since what is dropped follows from the place there.
void dropped_backward_input(const Context& c, const Linear& layer, const Adapter& adapter, const Tensor& dx,
                            const Tensor& dy, std::int64_t first_token, std::int64_t first_column) {
  const std::int64_t all = c.units.parameter(adapter.a).shape[1];
  const Tensor input_grad = c.adapters.input(dx.shape[0], all).columns(first_column, dx.shape[1]);
  const bool has_magnitude = adapter.magnitude.exists();
  if (has_magnitude) {
    const Tensor weight = weight_of(c, layer, adapter).columns(first_column, dx.shape[1]);
    c.ops.run(ops::Matmul{.a = scaled(c, adapter, dy, -1.0F), .b = weight, .c = input_grad});
  }
  low_backward_input(c, adapter, input_grad, has_magnitude ? scaled(c, adapter, dy, 0.0F) : dy,
                     /*accumulate=*/has_magnitude, first_column);
  drop(c, adapter, dx, input_grad, first_token * all + first_column, /*accumulate=*/true);
}

/// Adds to dx (T, n), some columns of dy weight, what goes through the layer's adapters, of dy (T, N).
void add_adapters_backward(const Context& c, const Linear& layer, const Tensor& dx, const Tensor& dy,
                           std::int64_t first_token, std::int64_t first_column) {
  for (const Adapter& adapter : layer.adapters) {
    const Tensor columns = columns_of(c, layer, adapter, dy);
    if (c.adapters.dropout() != 0.0F) {
      dropped_backward_input(c, layer, adapter, dx, columns, first_token, first_column);
    } else {
      low_backward_input(c, adapter, dx, columns, /*accumulate=*/true, first_column);
    }
  }
}

/// Adds to the gradient of a magnitude, of the gradient dy (T, N) of its adapter's output. `input` (T, M), and `low`
/// (T, R) of it, are what the adapter saw.
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

Tensor as_matrix(const Tensor& heads) { return heads.view({heads.shape[0], heads.row_elements()}); }

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

void linear_forward(const Context& c, const Linear& layer, Tensor y, const Tensor& x, std::int64_t first_token) {
  multiply(c, layer, y, x, layer.bias.exists(), first_token);
}

void linear_forward_partial(const Context& c, const Linear& layer, Tensor y, const Tensor& x,
                            std::int64_t first_token) {
  multiply(c, layer, y, x, layer.bias.exists() && c.tp.rank() == 0, first_token);
}

void linear_backward_input(const Context& c, const Linear& layer, Tensor dx, const Tensor& dy, std::int64_t first_token,
                           GradientCodes* codes) {
  if (scales_gradient(c, layer)) return scaled_backward_input(c, layer, dx, dy);
  multiply_own(c, layer, {.a = dy, .b = c.units.parameter(layer.weight), .c = dx}, Fp8Operand::gradient,
               Fp8Operand::weight, codes);
  add_adapters_backward(c, layer, dx, dy, first_token, /*first_column=*/0);
}

void linear_backward_weight(const Context& c, const Linear& layer, const Tensor& dy, const Tensor& x,
                            std::int64_t first_token, GradientCodes* codes) {
  if (layer.bias.exists() && c.units.has_gradient(layer.bias)) {
    c.ops.run(ops::BiasBackward{c.units.accumulated_gradient(layer.bias), dy});
  }
  if (c.units.has_gradient(layer.weight)) {
    const parallel::GradientTarget target = c.units.gradient(layer.weight);
    multiply_own(c, layer, {.a = dy, .b = x, .c = target.tensor, .transpose_a = true, .accumulate = target.accumulate},
                 Fp8Operand::gradient, Fp8Operand::activation, codes);
  }
  for (const Adapter& adapter : layer.adapters) {
    const Tensor input = dropped(c, adapter, x, first_token), low = low_forward(c, adapter, input);
    Tensor dproduct = columns_of(c, layer, adapter, dy);  // of low b^T
    if (adapter.magnitude.exists()) {
      magnitude_backward(c, layer, dproduct, adapter, input, low);
      dproduct = scaled(c, adapter, dproduct, 0.0F);
    }
    write_gradient(c, adapter.b, dproduct, low);
    write_gradient(c, adapter.a, low_backward(c, adapter, dproduct), input);
  }
}

LinearRows::LinearRows(const Context& c, const Linear& layer, const Tensor& x) : layer_(layer), x_(x) {
  if (c.fp8 == nullptr) return;
  operands_ = round_operands(c, {.a = x, .b = c.units.parameter(layer.weight), .c = {}, .transpose_b = true},
                             Fp8Operand::activation, Fp8Operand::weight, c.units.fp8_scales(layer.weight), nullptr,
                             Fp8Room::slices_of_first);
}

void LinearRows::forward(const Context& c, Slice rows, const Tensor& y) const {
  const Tensor bias = layer_.bias.exists() ? c.units.parameter(layer_.bias) : Tensor();
  const Tensor own_bias = bias.empty() ? bias : bias.rows(rows.begin, rows.count);
  if (c.fp8 != nullptr) {
    multiply_columns_in_fp8(c, operands_, rows.begin, y, own_bias);
  } else {
    const Tensor weight = c.units.parameter(layer_.weight).rows(rows.begin, rows.count);
    c.ops.run(ops::Matmul{.a = x_, .b = weight, .c = y, .transpose_b = true, .bias = own_bias});
  }
  add_adapters(c, layer_, y, rows, x_, /*first_token=*/0, bias);
}

LinearColumns::LinearColumns(const Context& c, const Linear& layer, const Tensor& dy, GradientCodes* codes)
    : layer_(layer), dy_(dy) {
  if (c.fp8 == nullptr) return;
  operands_ = round_operands(c, {.a = dy, .b = c.units.parameter(layer.weight), .c = {}}, Fp8Operand::gradient,
                             Fp8Operand::weight, c.units.fp8_scales(layer.weight), codes_of_trained(c, layer, codes));
}

void LinearColumns::backward_input(const Context& c, std::int64_t first_column, const Tensor& dx) const {
  if (scales_gradient(c, layer_)) return scaled_backward_input(c, layer_, dx, dy_, first_column);
  if (c.fp8 != nullptr) {
    multiply_columns_in_fp8(c, operands_, first_column, dx, {});
  } else {
    const Tensor weight = c.units.parameter(layer_.weight).columns(first_column, dx.shape[1]);
    c.ops.run(ops::Matmul{.a = dy_, .b = weight, .c = dx});
  }
  add_adapters_backward(c, layer_, dx, dy_, /*first_token=*/0, first_column);
}

}  // namespace sft::model
