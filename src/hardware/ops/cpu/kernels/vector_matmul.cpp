// SPDX-License-Identifier: Apache-2.0
// Products of a matrix with a vector, which read every number of the matrix once, in the order it lies in memory.

#include "ops/cpu/kernels/run.hpp"
#include "ops/cpu/kernels/tile.hpp"

namespace sft::ops::cpu::SFT_ISA {
namespace {

/// y[line * y_stride] = sum over p of matrix[line * line_stride + p * term_stride] x[p] [+ bias] [+ y].
template <class T, class C>
struct VectorMatmul {
  const T* matrix;
  const void* bias;
  const float* x;
  C* y;
  std::int64_t line_stride, term_stride, y_stride, bias_stride;
  std::int64_t count, depth;
  bool accumulate, has_bf16_bias;

  void finish(std::int64_t line, float sum) const {
    if (bias != nullptr) sum += bias_at(line * bias_stride);
    C& out = y[line * y_stride];
    store(out, accumulate ? load(out) + sum : sum);
  }
  [[nodiscard]] float bias_at(std::int64_t index) const {
    return has_bf16_bias ? load(static_cast<const Bf16*>(bias)[index]) : static_cast<const float*>(bias)[index];
  }
};

constexpr std::int64_t block_lines = 512;  ///< whose sums stay in the first-level cache

/// Lines whose terms are neighbours.
template <class T, class C>
void sum_along_lines(const VectorMatmul<T, C>& product, std::int64_t begin, std::int64_t end) {
  for (std::int64_t line = begin; line < end; ++line) {
    const T* row = product.matrix + line * product.line_stride;
    alignas(vector_bytes) Vector sums[4] = {};
    std::int64_t p = 0;
    for (; p + 4 * vector_floats <= product.depth; p += 4 * vector_floats) {
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) {
        sums[i] += vector_at(row + p + i * vector_floats) * vector_at(product.x + p + i * vector_floats);
      }
    }
    const Vector lanes = (sums[0] + sums[1]) + (sums[2] + sums[3]);
    float sum = 0.0f;
    for (std::int64_t lane = 0; lane < vector_floats; ++lane) sum += lanes[lane];
    for (; p < product.depth; ++p) sum += load(row[p]) * product.x[p];
    product.finish(line, sum);
  }
}

/// Lines that lie side by side: four terms of all of them at a time.
template <class T, class C>
void sum_across_lines(const VectorMatmul<T, C>& product, std::int64_t begin, std::int64_t end) {
  const std::int64_t count = end - begin, stride = product.term_stride;
  float sums[block_lines] = {};
  std::int64_t p = 0;
  for (; p + 4 <= product.depth; p += 4) {
    const T* row = product.matrix + begin + p * stride;
    const float* x = product.x + p;
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) {
      sums[i] += (load(row[i]) * x[0] + load(row[i + stride]) * x[1]) +
                 (load(row[i + 2 * stride]) * x[2] + load(row[i + 3 * stride]) * x[3]);
    }
  }
  for (; p < product.depth; ++p) {
    const T* row = product.matrix + begin + p * stride;
    const float* x = product.x + p;
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) sums[i] += load(row[i]) * x[0];
  }
  for (std::int64_t i = 0; i < count; ++i) product.finish(begin + i, sums[i]);
}

template <class T, class C>
VectorMatmul<T, C> with_matrix(const MatmulArguments& product, float* x) {
  const bool is_row = product.m == 1;
  const T* from = static_cast<const T*>(is_row ? product.a : product.b);
  const std::int64_t stride = is_row ? product.a_column_stride : product.b_row_stride;
  for (std::int64_t p = 0; p < product.k; ++p) x[p] = load(from[p * stride]);
  return {.matrix = static_cast<const T*>(is_row ? product.b : product.a),
          .bias = product.bias,
          .x = x,
          .y = static_cast<C*>(product.c),
          .line_stride = is_row ? product.b_column_stride : product.a_row_stride,
          .term_stride = is_row ? product.b_row_stride : product.a_column_stride,
          .y_stride = is_row ? 1 : product.c_stride,
          .bias_stride = is_row ? 1 : 0,
          .count = is_row ? product.n : product.m,
          .depth = product.k,
          .accumulate = product.accumulate,
          .has_bf16_bias = product.has_bf16_bias};
}

template <class T, class C>
void multiply(const MatmulArguments& product, Scratch scratch) {
  const VectorMatmul<T, C> vector = with_matrix<T, C>(product, scratch.data);
#pragma omp parallel for if (vector.count * vector.depth >= min_parallel_elements)
  for (std::int64_t begin = 0; begin < vector.count; begin += block_lines) {
    const std::int64_t end = min(begin + block_lines, vector.count);
    (vector.term_stride == 1 ? sum_along_lines<T, C> : sum_across_lines<T, C>)(vector, begin, end);
  }
}

}  // namespace

void vector_matmul(const MatmulArguments& product, Scratch scratch) {
  if (!product.has_bf16_operands) return multiply<float, float>(product, scratch);
  if (!product.has_bf16_result) return multiply<Bf16, float>(product, scratch);
  multiply<Bf16, Bf16>(product, scratch);
}

}  // namespace sft::ops::cpu::SFT_ISA
