// SPDX-License-Identifier: Apache-2.0
#include "model/linear/low_rank.hpp"

#include "sft/model/linear/adapter_buffers.hpp"

namespace sft::model {

Tensor columns_of(const Context& c, const Linear& layer, const Adapter& adapter, const Tensor& y) {
  const Tensor b = c.units.parameter(adapter.b);
  return y.columns(c.units.first_row(layer.weight, adapter.member), b.shape[0]);
}

Tensor weight_of(const Context& c, const Linear& layer, const Adapter& adapter) {
  const std::int64_t first = c.units.first_row(layer.weight, adapter.member);
  return c.units.parameter(layer.weight).rows(first, c.units.parameter(adapter.b).shape[0]);
}

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

Tensor dropped(const Context& c, const Adapter& adapter, const Tensor& x, std::int64_t first_token) {
  if (c.adapters.dropout() == 0.0F) return x;
  const Tensor input = c.adapters.input(x.shape[0], x.shape[1]);
  drop(c, adapter, input, x, first_token * x.shape[1], /*accumulate=*/false);
  return input;
}

Tensor low_forward(const Context& c, const Adapter& adapter, const Tensor& x) {
  const Tensor a = c.units.parameter(adapter.a), low = c.adapters.low(x.shape[0], a.shape[0]);
  c.ops.run(ops::Matmul{.a = x, .b = a, .c = low, .transpose_b = true});
  c.ops.run(ops::Scale{low, adapter.scale});
  return low;
}

Tensor low_backward(const Context& c, const Adapter& adapter, const Tensor& dy) {
  const Tensor b = c.units.parameter(adapter.b), low_grad = c.adapters.low_grad(dy.shape[0], b.shape[1]);
  c.ops.run(ops::Matmul{.a = dy, .b = b, .c = low_grad});
  c.ops.run(ops::Scale{low_grad, adapter.scale});
  return low_grad;
}

void multiply_low(const Context& c, const Adapter& adapter, const Tensor& y, const Tensor& low, bool accumulate,
                  std::int64_t first_row) {
  const Tensor b = c.units.parameter(adapter.b).rows(first_row, y.shape[1]);
  c.ops.run(ops::Matmul{.a = low, .b = b, .c = y, .transpose_b = true, .accumulate = accumulate});
}

void low_backward_input(const Context& c, const Adapter& adapter, const Tensor& dx, const Tensor& dy, bool accumulate,
                        std::int64_t first_column) {
  c.ops.run(ops::Matmul{.a = low_backward(c, adapter, dy),
                        .b = c.units.parameter(adapter.a).columns(first_column, dx.shape[1]),
                        .c = dx,
                        .accumulate = accumulate});
}

void write_gradient(const Context& c, const parallel::ParameterGroup& matrix, const Tensor& dy, const Tensor& x) {
  const parallel::GradientTarget target = c.units.gradient(matrix);
  c.ops.run(ops::Matmul{.a = dy, .b = x, .c = target.tensor, .transpose_a = true, .accumulate = target.accumulate});
}

}  // namespace sft::model
