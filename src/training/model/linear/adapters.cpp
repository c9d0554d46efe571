// SPDX-License-Identifier: Apache-2.0
#include "model/linear/adapters.hpp"

#include <algorithm>

#include "model/linear/low_rank.hpp"
#include "model/linear/magnitudes.hpp"
#include "sft/model/linear/adapter_buffers.hpp"

namespace sft::model {

namespace {

/// dx (T, n) += some columns of the gradient through what an adapter makes of an x that was partly dropped, of
/// dy (T, N). They stand in a matrix of all columns, since what is dropped follows from the place there.
void dropped_backward_input(const Context& c, const Linear& layer, const Adapter& adapter, const Tensor& dx,
                            const Tensor& dy, std::int64_t first_token, std::int64_t first_column) {
  const std::int64_t all = c.units.parameter(adapter.a).shape[1];
  const Tensor input_grad = c.adapters.input(dx.shape[0], all).columns(first_column, dx.shape[1]);
  const bool has_magnitude = adapter.magnitude.exists();
  if (has_magnitude) {
    const Tensor weight = weight_of(c, layer, adapter).columns(first_column, dx.shape[1]);
    c.ops.run(ops::Matmul{.a = scaled_columns(c, adapter, dy, -1.0F), .b = weight, .c = input_grad});
  }
  low_backward_input(c, adapter, input_grad, has_magnitude ? scaled_columns(c, adapter, dy, 0.0F) : dy,
                     /*accumulate=*/has_magnitude, first_column);
  drop(c, adapter, dx, input_grad, first_token * all + first_column, /*accumulate=*/true);
}

}  // namespace

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

void add_adapter_gradients(const Context& c, const Linear& layer, const Tensor& dy, const Tensor& x,
                           std::int64_t first_token) {
  for (const Adapter& adapter : layer.adapters) {
    const Tensor input = dropped(c, adapter, x, first_token), low = low_forward(c, adapter, input);
    Tensor dproduct = columns_of(c, layer, adapter, dy);  // of low b^T
    if (adapter.magnitude.exists()) {
      magnitude_backward(c, layer, dproduct, adapter, input, low);
      dproduct = scaled_columns(c, adapter, dproduct, 0.0F);
    }
    write_gradient(c, adapter.b, dproduct, low);
    write_gradient(c, adapter.a, low_backward(c, adapter, dproduct), input);
  }
}

}  // namespace sft::model
