// SPDX-License-Identifier: Apache-2.0
#include "sft/model/linear.hpp"

#include "sft/model/adapter_buffers.hpp"

namespace sft::model {

namespace {

/// The columns of y, or of its gradient, that belong to the adapter's matrix.
Tensor columns_of(const Context& c, const Linear& layer, const Adapter& adapter, const Tensor& y) {
  const Tensor b = c.units.parameter(adapter.b);
  return y.columns(c.units.first_row(layer.weight, adapter.member), b.shape[0]);
}

/// Every adapter drops its own elements. Ranks of tp that hold the same columns of x drop the same ones.
std::uint64_t seed_of(const Context& c, const Adapter& adapter) {
  const auto part = static_cast<std::uint64_t>(adapter.splits_input ? c.tp.rank() : 0);
  const auto number = static_cast<std::uint64_t>(adapter.a.unit) << 32U | static_cast<std::uint64_t>(adapter.a.first);
  return (c.adapters.seed() ^ number) * 0x9e3779b97f4a7c15U + part;
}

/// What the adapter sees of x (T, M).
Tensor dropped(const Context& c, const Adapter& adapter, const Tensor& x) {
  if (c.adapters.dropout() == 0.0F) return x;
  const Tensor input = c.adapters.input(x.shape[1]);
  c.ops.dropout(input, x, c.adapters.dropout(), seed_of(c, adapter), false);
  return input;
}

/// scale a x (T, R).
Tensor low_forward(const Context& c, const Adapter& adapter, const Tensor& x) {
  c.ops.matmul({.a = x, .b = c.units.parameter(adapter.a), .c = c.adapters.low(), .transpose_b = true});
  c.ops.scale(c.adapters.low(), c.adapters.scale());
  return c.adapters.low();
}

/// The gradient of a x: scale b^T dy (T, R).
Tensor low_backward(const Context& c, const Linear& layer, const Adapter& adapter, const Tensor& dy) {
  const Tensor part = columns_of(c, layer, adapter, dy);
  c.ops.matmul({.a = part, .b = c.units.parameter(adapter.b), .c = c.adapters.low_grad()});
  c.ops.scale(c.adapters.low_grad(), c.adapters.scale());
  return c.adapters.low_grad();
}

void write_gradient(const Context& c, const parallel::ParameterGroup& matrix, const Tensor& dy, const Tensor& x) {
  const parallel::GradientTarget target = c.units.gradient(matrix);
  c.ops.matmul({.a = dy, .b = x, .c = target.tensor, .transpose_a = true, .accumulate = target.accumulate});
}

void multiply(const Context& c, const Linear& layer, Tensor y, const Tensor& x, bool with_bias) {
  c.ops.matmul({.a = x,
                .b = c.units.parameter(layer.weight),
                .c = y,
                .transpose_b = true,
                .bias = with_bias ? c.units.parameter(layer.bias) : Tensor()});
  for (const Adapter& adapter : layer.adapters) {
    const Tensor low = low_forward(c, adapter, dropped(c, adapter, x));
    c.ops.matmul({.a = low,
                  .b = c.units.parameter(adapter.b),
                  .c = columns_of(c, layer, adapter, y),
                  .transpose_b = true,
                  .accumulate = true});
  }
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
  for (const Adapter& adapter : layer.adapters) {
    const Tensor low_grad = low_backward(c, layer, adapter, dy);
    const Tensor a = c.units.parameter(adapter.a);
    if (c.adapters.dropout() == 0.0F) {
      c.ops.matmul({.a = low_grad, .b = a, .c = dx, .accumulate = true});
    } else {
      const Tensor input_grad = c.adapters.input(dx.shape[1]);
      c.ops.matmul({.a = low_grad, .b = a, .c = input_grad});
      c.ops.dropout(dx, input_grad, c.adapters.dropout(), seed_of(c, adapter), true);
    }
  }
}

void linear_backward_weight(const Context& c, const Linear& layer, const Tensor& dy, const Tensor& x) {
  if (layer.bias.exists() && layer.bias.trainable) c.ops.bias_backward(c.units.accumulated_gradient(layer.bias), dy);
  if (layer.weight.trainable) write_gradient(c, layer.weight, dy, x);
  for (const Adapter& adapter : layer.adapters) {
    const Tensor input = dropped(c, adapter, x);
    write_gradient(c, adapter.b, columns_of(c, layer, adapter, dy), low_forward(c, adapter, input));
    write_gradient(c, adapter.a, low_backward(c, layer, adapter, dy), input);
  }
}

}  // namespace sft::model
