// SPDX-License-Identifier: Apache-2.0
#include "reduce.hpp"

#include <algorithm>
#include <array>

#include "sft/core/error.hpp"

namespace sft::comm {

namespace {

constexpr std::int64_t block_elements = 1024;  // partial results stay in the first-level cache

template <class T>
void add_to(T* __restrict values, const T* __restrict from, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) values[i] += from[i];
}

/// A NaN on either side stays.
template <class T>
void max_to(T* __restrict values, const T* __restrict from, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) values[i] = values[i] < from[i] || from[i] != from[i] ? from[i] : values[i];
}

/// Calls finish(begin, values, count) with the reduction of each block; combine(values, from, count) adds one source.
template <class T, class Combine, class Finish>
void for_each_block(std::span<const void* const> sources, std::int64_t num_elements, Combine combine, Finish finish) {
#pragma omp parallel for schedule(static) if (num_elements >= 64 * block_elements)
  for (std::int64_t begin = 0; begin < num_elements; begin += block_elements) {
    const std::int64_t count = std::min(block_elements, num_elements - begin);
    std::array<T, block_elements> values;
    std::copy_n(static_cast<const T*>(sources[0]) + begin, count, values.data());
    for (const void* source : sources.subspan(1)) combine(values.data(), static_cast<const T*>(source) + begin, count);
    finish(begin, values.data(), count);
  }
}

template <class T>
void reduce_into(T* out, std::span<const void* const> sources, std::int64_t num_elements, ReduceOp op) {
  for_each_block<T>(
      sources, num_elements, op == ReduceOp::sum ? add_to<T> : max_to<T>,
      [out](std::int64_t begin, const T* values, std::int64_t count) { std::copy_n(values, count, out + begin); });
}

}  // namespace

void reduce(void* out, std::span<const void* const> sources, std::int64_t num_elements, DType dtype, ReduceOp op) {
  ensure(dtype == DType::float32 || dtype == DType::float64, "reductions are of float32 or float64");
  if (dtype == DType::float32) {
    reduce_into(static_cast<float*>(out), sources, num_elements, op);
  } else {
    reduce_into(static_cast<double*>(out), sources, num_elements, op);
  }
}

void add_sum(float* out, std::span<const void* const> sources, std::int64_t num_elements) {
  for_each_block<float>(
      sources, num_elements, add_to<float>,
      [out](std::int64_t begin, const float* values, std::int64_t count) { add_to(out + begin, values, count); });
}

}  // namespace sft::comm
