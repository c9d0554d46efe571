// SPDX-License-Identifier: Apache-2.0
#include "reduce.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <vector>

#include "sft/core/ensure.hpp"

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

/// Adds up numbers that `load(source, i)` reads as float32.
template <class Load>
void sum_loaded(float* out, std::span<const void* const> sources, std::int64_t num_elements, bool adds, Load load) {
#pragma omp parallel for schedule(static) if (num_elements >= 64 * block_elements)
  for (std::int64_t begin = 0; begin < num_elements; begin += block_elements) {
    const std::int64_t count = std::min(block_elements, num_elements - begin);
    std::array<float, block_elements> values;
    for (std::int64_t i = 0; i < count; ++i) values[i] = load(sources[0], begin + i);
    for (const void* source : sources.subspan(1)) {
      for (std::int64_t i = 0; i < count; ++i) values[i] += load(source, begin + i);
    }
    if (adds) {
      add_to(out + begin, values.data(), count);
    } else {
      std::copy_n(values.data(), count, out + begin);
    }
  }
}

float rounded(float value) { return float32_of_bf16(bf16_of_float32(value)); }

template <class T>
using Combine = void (*)(T* __restrict, const T* __restrict, std::int64_t);

/// Recursive doubling: of `power` = 2^k ranks each joins its part with that of the rank at distance 1, then 2, 4, ...
/// The ranks beyond the largest power of two have added theirs to the first ones before. `values` = what the ranks
/// [first, first + width) and those beyond have joined.
template <class T>
void join_by_doubling(T* values, std::span<const T* const> sources, std::int64_t begin, std::int64_t count,
                      std::size_t first, std::size_t width, std::size_t power, Combine<T> combine) {
  if (width == 1) {
    std::copy_n(sources[first] + begin, count, values);
    if (first + power < sources.size()) combine(values, sources[first + power] + begin, count);
    return;
  }
  std::array<T, block_elements> others;
  join_by_doubling(values, sources, begin, count, first, width / 2, power, combine);
  join_by_doubling(others.data(), sources, begin, count, first + width / 2, width / 2, power, combine);
  combine(values, others.data(), count);
}

template <class T>
void reduce_by_doubling_into(T* out, std::span<const void* const> sources, std::int64_t num_elements, ReduceOp op) {
  std::vector<const T*> typed;
  for (const void* source : sources) typed.push_back(static_cast<const T*>(source));
  const std::size_t power = std::bit_floor(typed.size());
  for (std::int64_t begin = 0; begin < num_elements; begin += block_elements) {
    const std::int64_t count = std::min(block_elements, num_elements - begin);
    join_by_doubling<T>(out + begin, typed, begin, count, 0, power, power, op == ReduceOp::sum ? add_to<T> : max_to<T>);
  }
}

}  // namespace

void reduce_by_doubling(void* out, std::span<const void* const> sources, std::int64_t num_elements, DType dtype,
                        ReduceOp op) {
  SFT_ENSURE(dtype == DType::float32 || dtype == DType::float64, "reductions are of float32 or float64");
  if (dtype == DType::float32) {
    reduce_by_doubling_into(static_cast<float*>(out), sources, num_elements, op);
  } else {
    reduce_by_doubling_into(static_cast<double*>(out), sources, num_elements, op);
  }
}

void reduce(void* out, std::span<const void* const> sources, std::int64_t num_elements, DType dtype, ReduceOp op) {
  SFT_ENSURE(dtype == DType::float32 || dtype == DType::float64, "reductions are of float32 or float64");
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

void round_to_bf16(std::uint16_t* to, const float* from, std::int64_t num_elements) {
#pragma omp parallel for schedule(static) if (num_elements >= 64 * block_elements)
  for (std::int64_t i = 0; i < num_elements; ++i) to[i] = bf16_of_float32(from[i]);
}

void sum_bf16(float* out, std::span<const void* const> sources, std::int64_t num_elements, bool adds) {
  sum_loaded(out, sources, num_elements, adds, [](const void* source, std::int64_t i) {
    return float32_of_bf16(static_cast<const std::uint16_t*>(source)[i]);
  });
}

void sum_rounded(float* out, std::span<const void* const> sources, std::int64_t num_elements, bool adds) {
  sum_loaded(out, sources, num_elements, adds,
             [](const void* source, std::int64_t i) { return rounded(static_cast<const float*>(source)[i]); });
}

void round_in_place(float* numbers, std::int64_t num_elements) {
#pragma omp parallel for schedule(static) if (num_elements >= 64 * block_elements)
  for (std::int64_t i = 0; i < num_elements; ++i) numbers[i] = rounded(numbers[i]);
}

}  // namespace sft::comm
