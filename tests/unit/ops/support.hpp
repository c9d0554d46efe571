// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the tests of the ops share: tolerances, and backends of every instruction set.

#include <omp.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "ops/backends.hpp"
#include "ops/cpu/isa.hpp"
#include "ops/cpu/planning.hpp"
#include "sft/core/dtype.hpp"
#include "sft/device/factory.hpp"
#include "sft/ops/backend.hpp"
#include "sft/ops/factory.hpp"
#include "sft/tensor/tensor.hpp"
#include "unit/ops/owned.hpp"

namespace sft::ops::testing {

inline const std::vector<DType> compute_dtypes = {DType::float32, DType::bf16};

/// Rounding of one result: a little above the unit of the dtype.
inline double tolerance_of(DType dtype) { return dtype == DType::bf16 ? 0.005 : 3e-6; }

/// Every element within `tolerance` of the expected one, relative to the largest expected magnitude, or to that of the
/// terms where nothing may be left of them.
inline void check_close(const Tensor& actual, const std::vector<double>& expected, double tolerance,
                        const std::string& what, double terms = 1e-30) {
  const std::vector<double> values = read(actual);
  BOOST_TEST_REQUIRE(values.size() == expected.size());
  double largest = terms, worst = 0.0;
  for (double x : expected) largest = std::max(largest, std::isfinite(x) ? std::abs(x) : 0.0);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] == expected[i]) continue;  // equal infinities too
    const double error = std::abs(values[i] - expected[i]) / largest;
    worst = std::isnan(error) ? std::numeric_limits<double>::infinity() : std::max(worst, error);
  }
  BOOST_TEST(worst <= tolerance, what << ": error " << worst << " of the largest, allowed " << tolerance);
}

/// The instruction sets that this program tests, the best one last.
[[nodiscard]] std::vector<cpu::Isa> testable_isas();
/// Their kernels and ops, in this program.
[[nodiscard]] const cpu::Kernels& tested_kernels(cpu::Isa isa);
[[nodiscard]] std::unique_ptr<Backend> make_tested_backend(device::Device& device, device::Stream& stream,
                                                           cpu::Isa isa);

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
        backend_(make_checked_backend(make_tested_backend(*device_, *stream_, isa_))) {
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

/// Runs `test(backend)` on every instruction set that is tested, on one thread and on three.
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
