// SPDX-License-Identifier: Apache-2.0
// RMSNorm (Zhang & Sennrich 2019).

#include "sft/ops/calls/rms_norm.hpp"
#include "ops/cpu/kernels/norm_row.hpp"
#include "ops/cpu/kernels/run.hpp"

namespace sft::ops::cpu::SFT_ISA {
namespace {

template <class T, class Delta>
void add_forward(View sum_view, View y, float* rstd, ConstView x, ConstView delta, const float* weight, float epsilon) {
#pragma omp parallel for if (x.rows * x.columns >= min_parallel_elements)
  for (std::int64_t t = 0; t < x.rows; ++t) {
    const T* in = row<T>(x, t);
    const Delta* change = row<Delta>(delta, t);
    T* total = row<T>(sum_view, t);
    float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t c = 0; c < x.columns; ++c) {
      const float value = rounded<T>(load(in[c]) + load(change[c]));
      store(total[c], value);
      sum += value * value;
    }
    rstd[t] = inverse_root(sum, x.columns, epsilon);
    normalize<T, T>(row<T>(y, t), total, rstd[t], weight, x.columns);
  }
}

template <class T, class Dy>
void backward(View dx, float* dweight, ConstView dy, ConstView x, const float* rstd, const float* weight,
              ConstView dresidual, Scratch scratch) {
  const RowBlocks blocks(x.rows, x.columns);
#pragma omp parallel for if (x.rows * x.columns >= min_parallel_elements)
  for (std::int64_t block = 0; block < blocks.count; ++block) {
    float* partial = scratch.data + block * x.columns;
    for (std::int64_t c = 0; c < x.columns; ++c) partial[c] = 0.0f;
    const std::int64_t end = min(x.rows, (block + 1) * blocks.rows);
    for (std::int64_t t = block * blocks.rows; t < end; ++t) {
      const T* residual = dresidual.data == nullptr ? nullptr : row<T>(dresidual, t);
      norm_backward(row<T>(dx, t), partial, row<Dy>(dy, t), row<T>(x, t), rstd[t], weight, residual, x.columns);
    }
  }
  if (dweight != nullptr) add_rows(dweight, scratch.data, blocks.count, x.columns);
}

}  // namespace

template <>
void run(const RmsNormForward& op, Scratch scratch) {
  const View y = view_of(op.y);
  const ConstView x = view_of(op.x);
  float* const rstd = floats_of(op.rstd);
  const float epsilon = op.epsilon;
  const float* const weight = float32_weight(op.weight, scratch);
  with_type(x, [&](auto type) {
    using T = typename decltype(type)::type;
#pragma omp parallel for if (x.rows * x.columns >= min_parallel_elements)
    for (std::int64_t t = 0; t < x.rows; ++t) {
      const T* in = row<T>(x, t);
      rstd[t] = inverse_norm(in, x.columns, epsilon);
      normalize(row<T>(y, t), in, rstd[t], weight, x.columns);
    }
  });
}

template <>
void run(const AddRmsNormForward& op, Scratch scratch) {
  const View sum = view_of(op.sum), y = view_of(op.y);
  const ConstView x = view_of(op.x), delta = view_of(op.delta);
  float* const rstd = floats_of(op.rstd);
  const float* const weight = float32_weight(op.weight, scratch);
  with_type(x, [&](auto type) {
    with_type(delta, [&](auto delta_type) {
      add_forward<typename decltype(type)::type, typename decltype(delta_type)::type>(sum, y, rstd, x, delta, weight,
                                                                                      op.epsilon);
    });
  });
}

template <>
void run(const RmsNormApply& op, Scratch scratch) {
  const View y = view_of(op.y);
  const ConstView x = view_of(op.x);
  const float* const rstd = floats_of(op.rstd);
  const float* const weight = float32_weight(op.weight, scratch);
  with_type(x, [&](auto type) {
    using T = typename decltype(type)::type;
#pragma omp parallel for if (x.rows * x.columns >= min_parallel_elements)
    for (std::int64_t t = 0; t < x.rows; ++t) normalize(row<T>(y, t), row<T>(x, t), rstd[t], weight, x.columns);
  });
}

template <>
void run(const RmsNormBackward& op, Scratch scratch) {
  const View dx = view_of(op.dx);
  const ConstView dy = view_of(op.dy), x = view_of(op.x), dresidual = view_of(op.dresidual);
  float* const dweight = floats_of(op.dweight);
  const float* const rstd = floats_of(op.rstd);
  const float* const weight = float32_weight(op.weight, scratch);
  const Scratch sums = scratch_after(op.weight, scratch);
  with_type(x, [&](auto type) {
    with_type(dy, [&](auto dy_type) {
      backward<typename decltype(type)::type, typename decltype(dy_type)::type>(dx, dweight, dy, x, rstd, weight,
                                                                                dresidual, sums);
    });
  });
}

}  // namespace sft::ops::cpu::SFT_ISA
