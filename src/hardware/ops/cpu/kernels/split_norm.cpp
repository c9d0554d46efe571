// SPDX-License-Identifier: Apache-2.0
// RMSNorm of rows of which every rank has some columns; see sft/ops/calls/split_norm.hpp.

#include "ops/cpu/kernels/norm_row.hpp"
#include "ops/cpu/kernels/table.hpp"

namespace sft::ops::cpu::SFT_ISA {
namespace {

void split_norm_squares(float* squares, ConstView x) {
  with_type(x, [&](auto type) {
    using T = typename decltype(type)::type;
#pragma omp parallel for if (x.rows * x.columns >= min_parallel_elements)
    for (std::int64_t t = 0; t < x.rows; ++t) squares[t] = sum_of_squares(row<T>(x, t), x.columns);
  });
}

void split_norm_forward(View y, float* rstd, ConstView x, const float* squares, const float* weight,
                        std::int64_t all_columns, float epsilon) {
  with_type(x, [&](auto type) {
    using T = typename decltype(type)::type;
#pragma omp parallel for if (x.rows * x.columns >= min_parallel_elements)
    for (std::int64_t t = 0; t < x.rows; ++t) {
      rstd[t] = inverse_root(squares[t], all_columns, epsilon);
      normalize(row<T>(y, t), row<T>(x, t), rstd[t], weight, x.columns);
    }
  });
}

void split_norm_dots(float* dots, float* dweight, ConstView dy, ConstView x, const float* rstd, const float* weight,
                     Scratch scratch) {
  const RowBlocks blocks(x.rows, x.columns);
  with_type(x, [&](auto type) {
    using T = typename decltype(type)::type;
#pragma omp parallel for if (x.rows * x.columns >= min_parallel_elements)
    for (std::int64_t block = 0; block < blocks.count; ++block) {
      float* partial = scratch.data + block * x.columns;
      for (std::int64_t c = 0; c < x.columns; ++c) partial[c] = 0.0f;
      const std::int64_t end = min(x.rows, (block + 1) * blocks.rows);
      for (std::int64_t t = block * blocks.rows; t < end; ++t) {
        dots[t] = norm_dot(partial, row<T>(dy, t), row<T>(x, t), rstd[t], weight, x.columns);
      }
    }
  });
  if (dweight != nullptr) add_rows(dweight, scratch.data, blocks.count, x.columns);
}

void split_norm_backward(View dx, ConstView dy, ConstView x, const float* rstd, const float* dots, const float* weight,
                         std::int64_t all_columns) {
  with_type(x, [&](auto type) {
    using T = typename decltype(type)::type;
#pragma omp parallel for if (x.rows * x.columns >= min_parallel_elements)
    for (std::int64_t t = 0; t < x.rows; ++t) {
      const float mean = dots[t] / static_cast<float>(all_columns), scale = rstd[t];
      const T *gradient = row<T>(dy, t), *in = row<T>(x, t);
      T* out = row<T>(dx, t);
#pragma omp simd
      for (std::int64_t c = 0; c < x.columns; ++c) {
        store(out[c], scale * (load(gradient[c]) * weight[c] - load(in[c]) * scale * mean));
      }
    }
  });
}

}  // namespace

void enter_split_norm(Kernels& table) {
  table.split_norm_squares = split_norm_squares;
  table.split_norm_forward = split_norm_forward;
  table.split_norm_dots = split_norm_dots;
  table.split_norm_backward = split_norm_backward;
}

}  // namespace sft::ops::cpu::SFT_ISA
