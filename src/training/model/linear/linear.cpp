// SPDX-License-Identifier: Apache-2.0
#include "sft/model/linear/linear.hpp"

#include "model/linear/adapters.hpp"
#include "model/linear/fp8_products.hpp"
#include "model/linear/magnitudes.hpp"

namespace sft::model {

namespace {

/// `codes` of a gradient that goes into a second product, that of the weight; else null.
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

void multiply(const Context& c, const Linear& layer, Tensor y, const Tensor& x, bool with_bias,
              std::int64_t first_token) {
  const Tensor bias = with_bias ? c.units.parameter(layer.bias) : Tensor();
  multiply_own(c, layer, {.a = x, .b = c.units.parameter(layer.weight), .c = y, .transpose_b = true, .bias = bias},
               Fp8Operand::activation, Fp8Operand::weight);
  add_adapters(c, layer, y, {0, y.shape[1]}, x, first_token, bias);
}

}  // namespace

Tensor as_matrix(const Tensor& heads) { return heads.view({heads.shape[0], heads.row_elements()}); }

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
  add_adapter_gradients(c, layer, dy, x, first_token);
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
