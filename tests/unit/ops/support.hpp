// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the tests of the ops share: owned tensors of random or poisoned values, and backends of every instruction set.

#include <omp.h>

#include <algorithm>
#include <bit>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "ops/backends.hpp"
#include "ops/cpu/planning.hpp"
#include "sft/core/dtype.hpp"
#include "sft/device/factory.hpp"
#include "sft/ops/backend.hpp"
#include "sft/ops/factory.hpp"
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

inline double get(const Tensor& x, std::int64_t row, std::int64_t column) {
  const std::int64_t index = row * x.stride0 + column;
  switch (x.dtype) {
    case DType::float32:
      return x.as<float>()[index];
    case DType::bf16:
      return float_of(x.as<BFloat16>()[index]);
    case DType::float64:
      return x.as<double>()[index];
    case DType::int32:
      return x.as<std::int32_t>()[index];
    case DType::uint8:
      return x.as<std::uint8_t>()[index];
  }
  return 0.0;
}

inline void set(const Tensor& x, std::int64_t row, std::int64_t column, double value) {
  const std::int64_t index = row * x.stride0 + column;
  switch (x.dtype) {
    case DType::float32:
      x.as<float>()[index] = static_cast<float>(value);
      break;
    case DType::bf16:
      x.as<BFloat16>()[index] = bf16_of(static_cast<float>(value));
      break;
    case DType::float64:
      x.as<double>()[index] = value;
      break;
    case DType::int32:
      x.as<std::int32_t>()[index] = static_cast<std::int32_t>(value);
      break;
    case DType::uint8:
      x.as<std::uint8_t>()[index] = static_cast<std::uint8_t>(value);
      break;
  }
}

/// All elements of a view, rows one after the other.
inline std::vector<double> read(const Tensor& x) {
  std::vector<double> values;
  for (std::int64_t r = 0; r < x.shape[0]; ++r) {
    for (std::int64_t c = 0; c < x.row_elements(); ++c) values.push_back(get(x, r, c));
  }
  return values;
}

/// A tensor with its memory, poisoned with NaN until something is written.
class Owned {
 public:
  Owned(DType dtype, std::initializer_list<std::int64_t> shape) : tensor_(nullptr, dtype, shape) {
    bytes_.resize(static_cast<std::size_t>(tensor_.num_elements()) * size_of(dtype) + 64);
    const auto address = reinterpret_cast<std::uintptr_t>(bytes_.data());
    tensor_.data = bytes_.data() + (64 - address % 64) % 64;
    fill(std::numeric_limits<double>::quiet_NaN());
  }
  Owned(Owned&&) = default;
  Owned& operator=(Owned&&) = default;

  [[nodiscard]] const Tensor& operator*() const { return tensor_; }
  [[nodiscard]] const Tensor* operator->() const { return &tensor_; }

  Owned&& fill(double value) && { return std::move(this->fill(value)); }
  Owned& fill(double value) & {
    if (tensor_.dtype == DType::int32 && std::isnan(value)) value = -1;
    each([&] { return value; });
    return *this;
  }
  Owned&& normal(int seed, double stddev = 1.0) && {
    std::mt19937 generator(static_cast<unsigned>(seed));
    std::normal_distribution<double> distribution(0.0, stddev);
    each([&] { return distribution(generator); });
    return std::move(*this);
  }
  Owned&& uniform(int seed, int low, int high) && {
    std::mt19937 generator(static_cast<unsigned>(seed));
    std::uniform_int_distribution<int> distribution(low, high);
    each([&] { return distribution(generator); });
    return std::move(*this);
  }

 private:
  template <class F>
  void each(F next) {
    for (std::int64_t r = 0; r < tensor_.shape[0]; ++r) {
      for (std::int64_t c = 0; c < tensor_.row_elements(); ++c) set(tensor_, r, c, next());
    }
  }

  std::vector<std::byte> bytes_;
  Tensor tensor_;
};

inline const std::vector<DType> compute_dtypes = {DType::float32, DType::bf16};

/// Rounding of one result: a little above the unit of the dtype.
inline double tolerance_of(DType dtype) { return dtype == DType::bf16 ? 0.005 : 3e-6; }

/// Every element within `tolerance` of the expected one, relative to the largest expected magnitude.
inline void check_close(const Tensor& actual, const std::vector<double>& expected, double tolerance,
                        const std::string& what) {
  const std::vector<double> values = read(actual);
  BOOST_TEST_REQUIRE(values.size() == expected.size());
  double largest = 1e-30, worst = 0.0;
  for (double x : expected) largest = std::max(largest, std::isfinite(x) ? std::abs(x) : 0.0);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] == expected[i]) continue;  // equal infinities too
    const double error = std::abs(values[i] - expected[i]) / largest;
    worst = std::isnan(error) ? std::numeric_limits<double>::infinity() : std::max(worst, error);
  }
  BOOST_TEST(worst <= tolerance, what << ": error " << worst << " of the largest, allowed " << tolerance);
}

/// At least those of all tests.
inline constexpr Shapes largest_shapes{
    .tokens = 512, .hidden = 4096, .q_heads = 16, .kv_heads = 16, .head_dim = 256, .mlp = 4096, .vocab = 4096};

/// A checked backend of one instruction set with its stream and workspace.
class TestBackend {
 public:
  explicit TestBackend(cpu::Isa isa, const AttentionNeeds& needs = {.num_keys = 512,
                                                                    .longest_lane = 512,
                                                                    .num_kv_heads = 8,
                                                                    .head_dim = 256})
      : isa_(isa),
        device_(device::make_device(device::Kind::cpu)),
        stream_(device_->make_stream()),
        workspace_(DType::float32,
                   {static_cast<std::int64_t>(cpu::workspace_bytes(omp_get_max_threads(), largest_shapes, needs) /
                                              sizeof(float))}),
        backend_(make_checked_backend(cpu::make_backend(*device_, *stream_, isa_))) {
    backend_->set_workspace(*workspace_);
  }
  Backend* operator->() { return backend_.get(); }
  [[nodiscard]] cpu::Isa isa() const { return isa_; }
  [[nodiscard]] std::string name() const { return cpu::name_of(isa_); }

 private:
  cpu::Isa isa_;
  std::unique_ptr<device::Device> device_;
  std::unique_ptr<device::Stream> stream_;
  Owned workspace_;
  std::unique_ptr<Backend> backend_;
};

/// Every instruction set of this machine.
inline std::vector<cpu::Isa> testable_isas() {
  std::vector<cpu::Isa> isas;
  for (const cpu::Isa isa :
       {cpu::Isa::baseline, cpu::Isa::avx2, cpu::Isa::avx512, cpu::Isa::avx512_bf16, cpu::Isa::amx}) {
    if (isa <= cpu::best_isa()) isas.push_back(isa);
  }
  return isas;
}

/// Runs `test(backend)` on every instruction set of this machine, on one thread and on three.
template <class F>
void on_every_backend(F test) {
  for (const cpu::Isa isa : testable_isas()) {
    for (const int num_threads : {1, 3}) {
      omp_set_num_threads(num_threads);
      TestBackend backend(isa);
      test(backend);
    }
  }
}

/// The same for float32 and bf16: test(backend, dtype, label).
template <class F>
void on_every_backend_and_dtype(F test) {
  on_every_backend([&](TestBackend& backend) {
    for (const DType dtype : compute_dtypes) test(backend, dtype, backend.name() + " " + name_of(dtype));
  });
}

}  // namespace sft::ops::testing
