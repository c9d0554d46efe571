// SPDX-License-Identifier: Apache-2.0
// RMSNorm of rows of which every rank has some columns; see sft/ops/calls/split_norm.hpp.

#include "sft/ops/calls/split_norm.hpp"
#include "ops/cpu/kernels/norm_row.hpp"
#include "ops/cpu/kernels/run.hpp"

namespace sft::ops::cpu::SFT_ISA {
namespace {}  // namespace

template <>
void run(const SplitNormSquares& op, Scratch) {
  float* const squares = floats_of(op.squares);
  const ConstView x = view_of(op.x);
  with_type(x, [&](auto type) {
    using T = typename decltype(type)::type;
#pragma omp parallel for if (x.rows * x.columns >= min_parallel_elements)
    for (std::int64_t t = 0; t < x.rows; ++t) squares[t] = sum_of_squares(row<T>(x, t), x.columns);
  });
}

template <>
void run(const SplitNormForward& op, Scratch scratch) {
  const View y = view_of(op.y);
  const ConstView x = view_of(op.x);
  float* const rstd = floats_of(op.rstd);
  const float* const squares = floats_of(op.squares);
  const float* const weight = float32_weight(op.weight, scratch);
  with_type(x, [&](auto type) {
    using T = typename decltype(type)::type;
#pragma omp parallel for if (x.rows * x.columns >= min_parallel_elements)
    for (std::int64_t t = 0; t < x.rows; ++t) {
      rstd[t] = inverse_root(squares[t], op.all_columns, op.epsilon);
      normalize(row<T>(y, t), row<T>(x, t), rstd[t], weight, x.columns);
    }
  });
}

template <>
void run(const SplitNormDots& op, Scratch scratch) {
  float *const dots = floats_of(op.dots), *const dweight = floats_of(op.dweight);
  const ConstView dy = view_of(op.dy), x = view_of(op.x);
  const float* const rstd = floats_of(op.rstd);
  const float* const weight = float32_weight(op.weight, scratch);
  const Scratch sums = scratch_after(op.weight, scratch);
  const RowBlocks blocks(x.rows, x.columns);
  with_type(x, [&](auto type) {
    using T = typename decltype(type)::type;
#pragma omp parallel for if (x.rows * x.columns >= min_parallel_elements)
    for (std::int64_t block = 0; block < blocks.count; ++block) {
      float* partial = sums.data + block * x.columns;
      for (std::int64_t c = 0; c < x.columns; ++c) partial[c] = 0.0f;
      const std::int64_t end = min(x.rows, (block + 1) * blocks.rows);
      for (std::int64_t t = block * blocks.rows; t < end; ++t) {
        dots[t] = norm_dot(partial, row<T>(dy, t), row<T>(x, t), rstd[t], weight, x.columns);
      }
    }
  });
  if (dweight != nullptr) add_rows(dweight, sums.data, blocks.count, x.columns);
}

template <>
void run(const SplitNormBackward& op, Scratch scratch) {
  const View dx = view_of(op.dx);
  const ConstView dy = view_of(op.dy), x = view_of(op.x);
  const float *const rstd = floats_of(op.rstd), *const dots = floats_of(op.dots);
  const float* const weight = float32_weight(op.weight, scratch);
  with_type(x, [&](auto type) {
    using T = typename decltype(type)::type;
#pragma omp parallel for if (x.rows * x.columns >= min_parallel_elements)
    for (std::int64_t t = 0; t < x.rows; ++t) {
      const float mean = dots[t] / static_cast<float>(op.all_columns), scale = rstd[t];
      const T *gradient = row<T>(dy, t), *in = row<T>(x, t);
      T* out = row<T>(dx, t);
#pragma omp simd
      for (std::int64_t c = 0; c < x.columns; ++c) {
        store(out[c], scale * (load(gradient[c]) * weight[c] - load(in[c]) * scale * mean));
      }
    }
  });
}

}  // namespace sft::ops::cpu::SFT_ISA
