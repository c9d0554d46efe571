// SPDX-License-Identifier: Apache-2.0
#include "sft/model/linear.hpp"

namespace sft::model {

namespace {

void multiply(const Context& c, const Linear& layer, Tensor y, const Tensor& x, bool with_bias) {
  c.ops.matmul({.a = x,
                .b = c.units.parameter(layer.weight),
                .c = y,
                .transpose_b = true,
                .bias = with_bias ? c.units.parameter(layer.bias) : Tensor()});
}

}  // namespace

void linear_forward(const Context& c, const Linear& layer, Tensor y, const Tensor& x) {
  multiply(c, layer, y, x, layer.bias.exists());
}

void linear_forward_partial(const Context& c, const Linear& layer, Tensor y, const Tensor& x) {
  multiply(c, layer, y, x, layer.bias.exists() && c.tp.rank() == 0);
}

void linear_backward_input(const Context& c, const Linear& layer, Tensor dx, const Tensor& dy) {
  c.ops.matmul({.a = dy, .b = c.units.parameter(layer.weight), .c = dx});
}

void linear_backward_weight(const Context& c, const Linear& layer, const Tensor& dy, const Tensor& x) {
  if (layer.bias.exists() && layer.bias.trainable) c.ops.bias_backward(c.units.accumulated_gradient(layer.bias), dy);
  if (!layer.weight.trainable) return;
  const parallel::GradientTarget weight = c.units.gradient(layer.weight);
  c.ops.matmul({.a = dy, .b = x, .c = weight.tensor, .transpose_a = true, .accumulate = weight.accumulate});
}

}  // namespace sft::model
