// SPDX-License-Identifier: Apache-2.0
#pragma once
// RMSNorm of one row: of the hidden state, or of one head. The second pass over a row finds it in the cache.

#include "ops/cpu/kernels/weight.hpp"

namespace sft::ops::cpu::SFT_ISA {

inline float inverse_root(float sum_of_squares, std::int64_t size, float epsilon) {
  return 1.0f / __builtin_sqrtf(sum_of_squares / static_cast<float>(size) + epsilon);
}

template <class T>
float sum_of_squares(const T* x, std::int64_t size) {
  float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t c = 0; c < size; ++c) sum += load(x[c]) * load(x[c]);
  return sum;
}

template <class T>
float inverse_norm(const T* x, std::int64_t size, float epsilon) {
  return inverse_root(sum_of_squares(x, size), size, epsilon);
}

template <class Y, class T>
void normalize(Y* y, const T* x, float rstd, const float* weight, std::int64_t size) {
#pragma omp simd
  for (std::int64_t c = 0; c < size; ++c) store(y[c], load(x[c]) * rstd * weight[c]);
}

/// With n = x rstd and g = dy weight: the sum of g n; dweight += dy n.
template <class T, class Dy>
float norm_dot(float* dweight, const Dy* dy, const T* x, float rstd, const float* weight, std::int64_t size) {
  float dot = 0.0f;
#pragma omp simd reduction(+ : dot)
  for (std::int64_t c = 0; c < size; ++c) {
    const float product = load(dy[c]) * (load(x[c]) * rstd);
    dweight[c] += product;
    dot += product * weight[c];
  }
  return dot;
}

/// dx = rstd (g - n mean(g n)) + dresidual; dweight as above.
template <class T, class Dy>
void norm_backward(T* dx, float* dweight, const Dy* dy, const T* x, float rstd, const float* weight, const T* dresidual,
                   std::int64_t size) {
  const float mean = norm_dot(dweight, dy, x, rstd, weight, size) / static_cast<float>(size);
  if (dresidual != nullptr) {
#pragma omp simd
    for (std::int64_t c = 0; c < size; ++c) {
      const float gradient = rstd * (load(dy[c]) * weight[c] - load(x[c]) * rstd * mean);
      store(dx[c], gradient + load(dresidual[c]));
    }
  } else {
#pragma omp simd
    for (std::int64_t c = 0; c < size; ++c) {
      store(dx[c], rstd * (load(dy[c]) * weight[c] - load(x[c]) * rstd * mean));
    }
  }
}

}  // namespace sft::ops::cpu::SFT_ISA
