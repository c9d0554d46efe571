// SPDX-License-Identifier: Apache-2.0
#include "unit/ops/owned.hpp"

#include <limits>
#include <type_traits>

namespace sft::ops::testing {

namespace {

/// The tensor's elements in their own type: f(pointer).
template <class F>
auto visit(const Tensor& x, F f) {
  switch (x.dtype) {
    case DType::float32:
      return f(x.as<float>());
    case DType::bf16:
      return f(x.as<BFloat16>());
    case DType::float64:
      return f(x.as<double>());
    case DType::int32:
      return f(x.as<std::int32_t>());
    case DType::uint8:
      break;
  }
  return f(x.as<std::uint8_t>());
}

double number_of(BFloat16 x) { return float_of(x); }
template <class T>
double number_of(T x) {
  return static_cast<double>(x);
}

template <class T>
T element_of(double value) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    return bf16_of(static_cast<float>(value));
  } else {
    return static_cast<T>(value);
  }
}

/// Writes next() to every element, rows one after the other.
template <class F>
void write(const Tensor& x, F next) {
  visit(x, [&](auto* data) {
    using T = std::remove_pointer_t<decltype(data)>;
    const std::int64_t num_columns = x.row_elements();
    for (std::int64_t r = 0; r < x.shape[0]; ++r) {
      for (std::int64_t c = 0; c < num_columns; ++c) data[r * x.stride0 + c] = element_of<T>(next());
    }
  });
}

/// SplitMix64 (Steele, Lea, Flood 2014).
class Random {
 public:
  explicit Random(int seed) : state_(static_cast<std::uint64_t>(seed) * 0xd1342543de82ef95ULL) {}

  std::uint64_t operator()() {
    state_ += 0x9e3779b97f4a7c15ULL;
    std::uint64_t bits = state_;
    bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9ULL;
    bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebULL;
    return bits ^ (bits >> 31);
  }

 private:
  std::uint64_t state_;
};

}  // namespace

double get(const Tensor& x, std::int64_t row, std::int64_t column) {
  return visit(x, [&](const auto* data) { return number_of(data[row * x.stride0 + column]); });
}

void set(const Tensor& x, std::int64_t row, std::int64_t column, double value) {
  visit(x,
        [&](auto* data) { data[row * x.stride0 + column] = element_of<std::remove_pointer_t<decltype(data)>>(value); });
}

std::vector<double> read(const Tensor& x) {
  const std::int64_t num_columns = x.row_elements();
  std::vector<double> values(static_cast<std::size_t>(x.shape[0] * num_columns));
  visit(x, [&](const auto* data) {
    double* value = values.data();
    for (std::int64_t r = 0; r < x.shape[0]; ++r) {
      for (std::int64_t c = 0; c < num_columns; ++c) *value++ = number_of(data[r * x.stride0 + c]);
    }
  });
  return values;
}

Owned::Owned(DType dtype, std::initializer_list<std::int64_t> shape) : tensor_(nullptr, dtype, shape) {
  bytes_.resize(static_cast<std::size_t>(tensor_.num_elements()) * size_of(dtype) + 64);
  const auto address = reinterpret_cast<std::uintptr_t>(bytes_.data());
  tensor_.data = bytes_.data() + (64 - address % 64) % 64;
  fill(std::numeric_limits<double>::quiet_NaN());
}

Owned& Owned::fill(double value) & {
  if (tensor_.dtype == DType::int32 && std::isnan(value)) value = -1;
  write(tensor_, [&] { return value; });
  return *this;
}

Owned&& Owned::normal(int seed, double stddev) && {
  Random random(seed);
  // Of one number of 16 bits: mean 2^15 - 1/2, variance (2^32 - 1) / 12.
  const double scale = stddev / std::sqrt(4.0 * (0x1p32 - 1.0) / 12.0);
  write(tensor_, [&] {
    const std::uint64_t bits = random();
    const auto sum =
        static_cast<double>((bits & 0xffff) + (bits >> 16 & 0xffff) + (bits >> 32 & 0xffff) + (bits >> 48));
    return (sum - 2.0 * 0xffff) * scale;
  });
  return std::move(*this);
}

Owned&& Owned::uniform(int seed, int low, int high) && {
  Random random(seed);
  const auto count = static_cast<std::uint64_t>(high - low + 1);
  write(tensor_, [&] { return static_cast<double>(low + static_cast<int>((random() >> 32) * count >> 32)); });
  return std::move(*this);
}

}  // namespace sft::ops::testing
