// SPDX-License-Identifier: Apache-2.0
// Sums and maxima over rows of threads, several in one kernel.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstddef>
#include <cstring>
#include <memory>
#include <vector>

#include "ops/warp_kernels.hpp"
#include "sft/device/factory.hpp"

namespace sft::ops::testing {

BOOST_AUTO_TEST_CASE(rows_of_threads_share_their_results) {
  const std::unique_ptr<device::Device> device = device::make_device(device::Kind::cuda);
  const std::unique_ptr<device::Stream> stream = device->make_stream();
  for (const unsigned row_threads : {32U, 64U, 128U}) {
    const unsigned num_rows = 256 / row_threads;
    std::vector<float> values;
    for (unsigned i = 0; i < num_rows * row_threads; ++i) values.push_back(static_cast<float>(i * 37 % 101) - 40);
    const std::size_t value_bytes = values.size() * sizeof(float), result_bytes = num_rows * sizeof(RowResults);
    const device::Device::Block pinned = device->allocate(value_bytes, device::Space::pinned),
                                on_device = device->allocate(value_bytes), results = device->allocate(result_bytes);
    std::memcpy(pinned.get(), values.data(), value_bytes);
    device->copy(on_device.get(), pinned.get(), value_bytes, *stream);
    reduce_rows(static_cast<RowResults*>(results.get()), static_cast<const float*>(on_device.get()), num_rows,
                row_threads, static_cast<cudaStream_t>(stream->native()));
    device->copy(pinned.get(), results.get(), result_bytes, *stream);
    stream->synchronize();
    for (unsigned row = 0; row < num_rows; ++row) {
      RowResults expected{-1e30F, -1e30F, 0.0F, 0.0}, found{};
      for (unsigned i = row * row_threads; i < (row + 1) * row_threads; ++i) {
        expected.max = std::max(expected.max, values[i]);
        expected.negated_max = std::max(expected.negated_max, -values[i]);
        expected.sum += values[i];  // whole numbers: exact in any order
        expected.sum_of_squares += static_cast<double>(values[i] * values[i]);
      }
      std::memcpy(&found, static_cast<const std::byte*>(pinned.get()) + row * sizeof(RowResults), sizeof found);
      BOOST_TEST_CONTEXT("row " << row << " of " << row_threads << " threads") {
        BOOST_TEST(found.max == expected.max);
        BOOST_TEST(found.negated_max == expected.negated_max);
        BOOST_TEST(found.sum == expected.sum);
        BOOST_TEST(found.sum_of_squares == expected.sum_of_squares);
      }
    }
  }
}

}  // namespace sft::ops::testing
