// SPDX-License-Identifier: Apache-2.0
#include "sft/model/linear.hpp"

#include <algorithm>

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
  return (c.adapters.seed() ^ adapter.number) * 0x9e3779b97f4a7c15U + part;
}

/// What the adapter sees of x (T, M), whose first row is token `first_token`.
Tensor dropped(const Context& c, const Adapter& adapter, const Tensor& x, std::int64_t first_token) {
  if (c.adapters.dropout() == 0.0F) return x;
  const Tensor input = c.adapters.input(x.shape[0], x.shape[1]);
  c.ops.dropout(input, x, c.adapters.dropout(), seed_of(c, adapter), first_token * x.shape[1], false);
  return input;
}

/// scale a x (T, R).
Tensor low_forward(const Context& c, const Adapter& adapter, const Tensor& x) {
  const Tensor a = c.units.parameter(adapter.a), low = c.adapters.low(x.shape[0], a.shape[0]);
  c.ops.matmul({.a = x, .b = a, .c = low, .transpose_b = true});
  c.ops.scale(low, adapter.scale);
  return low;
}

/// The gradient of a x: scale b^T dy (T, R).
Tensor low_backward(const Context& c, const Linear& layer, const Adapter& adapter, const Tensor& dy) {
  const Tensor b = c.units.parameter(adapter.b), low_grad = c.adapters.low_grad(dy.shape[0], b.shape[1]);
  c.ops.matmul({.a = columns_of(c, layer, adapter, dy), .b = b, .c = low_grad});
  c.ops.scale(low_grad, adapter.scale);
  return low_grad;
}

void write_gradient(const Context& c, const parallel::ParameterGroup& matrix, const Tensor& dy, const Tensor& x) {
  const parallel::GradientTarget target = c.units.gradient(matrix);
  c.ops.matmul({.a = dy, .b = x, .c = target.tensor, .transpose_a = true, .accumulate = target.accumulate});
}

void multiply(const Context& c, const Linear& layer, Tensor y, const Tensor& x, bool with_bias,
              std::int64_t first_token) {
  c.ops.matmul({.a = x,
                .b = c.units.parameter(layer.weight),
                .c = y,
                .transpose_b = true,
                .bias = with_bias ? c.units.parameter(layer.bias) : Tensor()});
  for (const Adapter& adapter : layer.adapters) {
    const Tensor low = low_forward(c, adapter, dropped(c, adapter, x, first_token));
    c.ops.matmul({.a = low,
                  .b = c.units.parameter(adapter.b),
                  .c = columns_of(c, layer, adapter, y),
                  .transpose_b = true,
                  .accumulate = true});
  }
}

}  // namespace

AdapterBuffers::AdapterBuffers(const config::Lora& lora, const ops::Shapes& shapes, std::int64_t mlp_tile_tokens)
    : shapes_(shapes),
      mlp_tile_tokens_(std::min(mlp_tile_tokens, shapes.tokens)),
      rank_(lora.use_peft ? lora.max_rank() : 0),
      dropout_(static_cast<float>(lora.lora_dropout)) {}

void AdapterBuffers::lay_out(device::Arena& workspace) {
  if (rank_ == 0) return;
  low_ = take(workspace, shapes_.compute, {shapes_.tokens * rank_});
  low_grad_ = take(workspace, shapes_.compute, {shapes_.tokens * rank_});
  if (dropout_ == 0.0F) return;
  const std::int64_t attention_elements = shapes_.tokens * std::max(shapes_.hidden, shapes_.q_heads * shapes_.head_dim);
  const std::int64_t mlp_elements = mlp_tile_tokens_ * std::max(shapes_.hidden, shapes_.mlp);
  input_ = take(workspace, shapes_.compute, {std::max(attention_elements, mlp_elements)});
}

Tensor AdapterBuffers::input(std::int64_t num_tokens, std::int64_t columns) const {
  return input_.rows(0, num_tokens * columns).view({num_tokens, columns});
}

Tensor as_matrix(const Tensor& heads) { return heads.view({heads.shape[0], heads.row_elements()}); }

void linear_forward(const Context& c, const Linear& layer, Tensor y, const Tensor& x, std::int64_t first_token) {
  multiply(c, layer, y, x, layer.bias.exists(), first_token);
}

void linear_forward_partial(const Context& c, const Linear& layer, Tensor y, const Tensor& x,
                            std::int64_t first_token) {
  multiply(c, layer, y, x, layer.bias.exists() && c.tp.rank() == 0, first_token);
}

void linear_backward_input(const Context& c, const Linear& layer, Tensor dx, const Tensor& dy,
                           std::int64_t first_token) {
  c.ops.matmul({.a = dy, .b = c.units.parameter(layer.weight), .c = dx});
  for (const Adapter& adapter : layer.adapters) {
    const Tensor low_grad = low_backward(c, layer, adapter, dy);
    const Tensor a = c.units.parameter(adapter.a);
    if (c.adapters.dropout() == 0.0F) {
      c.ops.matmul({.a = low_grad, .b = a, .c = dx, .accumulate = true});
    } else {
      const Tensor input_grad = c.adapters.input(dx.shape[0], dx.shape[1]);
      c.ops.matmul({.a = low_grad, .b = a, .c = input_grad});
      c.ops.dropout(dx, input_grad, c.adapters.dropout(), seed_of(c, adapter), first_token * dx.shape[1], true);
    }
  }
}

void linear_backward_weight(const Context& c, const Linear& layer, const Tensor& dy, const Tensor& x,
                            std::int64_t first_token) {
  if (layer.bias.exists() && c.units.has_gradient(layer.bias)) {
    c.ops.bias_backward(c.units.accumulated_gradient(layer.bias), dy);
  }
  if (c.units.has_gradient(layer.weight)) write_gradient(c, layer.weight, dy, x);
  for (const Adapter& adapter : layer.adapters) {
    const Tensor input = dropped(c, adapter, x, first_token);
    write_gradient(c, adapter.b, columns_of(c, layer, adapter, dy), low_forward(c, adapter, input));
    write_gradient(c, adapter.a, low_backward(c, layer, adapter, dy), input);
  }
}

}  // namespace sft::model
