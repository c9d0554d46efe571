#include "reduce.hpp"

#include <algorithm>
#include <array>

#include "sft/core/error.hpp"

namespace sft::comm {

namespace {

constexpr std::int64_t block_elements = 1024;  // partial results stay in the first-level cache

struct Sum {
  template <class T>
  T operator()(T a, T b) const {
    return a + b;
  }
};

struct Max {
  template <class T>
  T operator()(T a, T b) const {
    return a < b || b != b ? b : a;  // a NaN on either side stays
  }
};

/// Calls finish(begin, values, count) with the reduction of each block.
template <class T, class Op, class Finish>
void for_each_block(std::span<const void* const> sources, std::int64_t num_elements, Op op, Finish finish) {
#pragma omp parallel for schedule(static) if (num_elements >= 64 * block_elements)
  for (std::int64_t begin = 0; begin < num_elements; begin += block_elements) {
    const std::int64_t count = std::min(block_elements, num_elements - begin);
    std::array<T, block_elements> values;
    std::copy_n(static_cast<const T*>(sources[0]) + begin, count, values.data());
    for (const void* source : sources.subspan(1)) {
      const T* from = static_cast<const T*>(source) + begin;
      for (std::int64_t i = 0; i < count; ++i) {
        auto& value = values[static_cast<std::size_t>(i)];
        value = op(value, from[i]);
      }
    }
    finish(begin, values.data(), count);
  }
}

template <class T, class Op>
void reduce_into(T* out, std::span<const void* const> sources, std::int64_t num_elements, Op op) {
  for_each_block<T>(sources, num_elements, op, [out](std::int64_t begin, const T* values, std::int64_t count) {
    std::copy_n(values, count, out + begin);
  });
}

template <class T>
void reduce_into(T* out, std::span<const void* const> sources, std::int64_t num_elements, ReduceOp op) {
  if (op == ReduceOp::sum) {
    reduce_into(out, sources, num_elements, Sum{});
  } else {
    reduce_into(out, sources, num_elements, Max{});
  }
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
  for_each_block<float>(sources, num_elements, Sum{},
                        [out](std::int64_t begin, const float* values, std::int64_t count) {
                          for (std::int64_t i = 0; i < count; ++i) out[begin + i] += values[i];
                        });
}

}  // namespace sft::comm
