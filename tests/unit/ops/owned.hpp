// SPDX-License-Identifier: Apache-2.0
#pragma once
// Tensors that tests own, of random or poisoned values, and their elements as double. Filling and reading them takes
// most of the time of these tests: it is compiled for speed, as the tests are not.

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <utility>
#include <vector>

#include "sft/core/dtype.hpp"
#include "sft/tensor/tensor.hpp"

namespace sft::ops::testing {

inline float float_of(BFloat16 x) { return std::bit_cast<float>(static_cast<std::uint32_t>(x.bits) << 16); }

/// Round to nearest even, by the definition: the nearer neighbour, the even one of two.
inline BFloat16 bf16_of(float x) {
  if (std::isnan(x)) return {0x7fc0};
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t low = bits & 0xffffu, high = bits >> 16;
  const bool up = low > 0x8000u || (low == 0x8000u && (high & 1u) != 0);
  return {static_cast<std::uint16_t>(high + (up ? 1 : 0))};
}

[[nodiscard]] double get(const Tensor& x, std::int64_t row, std::int64_t column);
void set(const Tensor& x, std::int64_t row, std::int64_t column, double value);

/// All elements of a view, rows one after the other.
[[nodiscard]] std::vector<double> read(const Tensor& x);

/// A tensor with its memory, poisoned with NaN until something is written.
class Owned {
 public:
  Owned(DType dtype, std::initializer_list<std::int64_t> shape);
  Owned(Owned&&) = default;
  Owned& operator=(Owned&&) = default;

  [[nodiscard]] const Tensor& operator*() const { return tensor_; }
  [[nodiscard]] const Tensor* operator->() const { return &tensor_; }

  /// NaN is -1 in integers.
  Owned& fill(double value) &;
  Owned&& fill(double value) && { return std::move(this->fill(value)); }
  /// Nearly normal numbers of mean 0: sums of four uniform ones, within 3.5 standard deviations.
  Owned&& normal(int seed, double stddev = 1.0) &&;
  /// Integers of [low, high].
  Owned&& uniform(int seed, int low, int high) &&;

 private:
  std::vector<std::byte> bytes_;
  Tensor tensor_;
};

}  // namespace sft::ops::testing
