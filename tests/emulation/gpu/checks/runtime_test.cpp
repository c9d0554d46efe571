// SPDX-License-Identifier: Apache-2.0
// Right kernels give right results in every order, without a fault.
#include <cuda_runtime_api.h>

#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <cstring>
#include <iterator>

#include "checks/kernels.hpp"
#include "runtime/stream_queue.hpp"
#include "runtime/traffic.hpp"

using namespace sft;

namespace {

/// A stream and memory that the host and the device see.
struct Setup {
  static constexpr int size = 1000;
  cudaStream_t stream = nullptr;
  float *values = nullptr, *results = nullptr, *host = nullptr;

  explicit Setup(unsigned long long seed) {
    emulation::set_seed(seed);
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    cudaMalloc(reinterpret_cast<void**>(&values), size * sizeof(float));
    cudaMalloc(reinterpret_cast<void**>(&results), size * sizeof(float));
    cudaMallocHost(reinterpret_cast<void**>(&host), size * sizeof(float));
    for (int i = 0; i < size; ++i) host[i] = static_cast<float>(i);
    cudaMemcpyAsync(values, host, size * sizeof(float), cudaMemcpyDefault, stream);
    cudaMemsetAsync(results, 0, size * sizeof(float), stream);
  }
  ~Setup() {
    cudaStreamDestroy(stream);
    cudaFree(values);
    cudaFree(results);
    cudaFreeHost(host);
  }
  /// `results` in `host`.
  void download() const {
    cudaMemcpyAsync(host, results, size * sizeof(float), cudaMemcpyDefault, stream);
    cudaStreamSynchronize(stream);
  }
};

constexpr unsigned long long num_seeds = 20;
constexpr float sum_of_values = Setup::size * (Setup::size - 1) / 2;

}  // namespace

BOOST_AUTO_TEST_CASE(shared_memory_barriers_and_shuffles) {
  for (unsigned long long seed = 0; seed < num_seeds; ++seed) {
    const Setup s(seed);
    test::scale(s.values, s.size, 2, s.stream);
    test::sum(s.values, s.size, s.results, s.stream);
    s.download();
    BOOST_TEST(s.host[0] == 2 * sum_of_values);
  }
}

BOOST_AUTO_TEST_CASE(the_last_block_sees_the_others_behind_a_fence) {
  for (unsigned long long seed = 0; seed < num_seeds; ++seed) {
    const Setup s(seed);
    auto* const count = reinterpret_cast<unsigned*>(s.results + 10);
    test::sum_by_last_block(s.values, s.size, s.results + 1, count, s.results, true, s.stream);
    s.download();
    BOOST_TEST(s.host[0] == sum_of_values);
    BOOST_TEST(s.host[10] == 0);
  }
}

BOOST_AUTO_TEST_CASE(exchanges) {
  for (unsigned long long seed = 0; seed < num_seeds; ++seed) {
    const Setup s(seed);
    test::check_exchanges(reinterpret_cast<unsigned*>(s.results), s.stream);
    s.download();
    unsigned num_wrong = 0;
    std::memcpy(&num_wrong, s.host, sizeof num_wrong);
    BOOST_TEST(num_wrong == 0);
  }
}

BOOST_AUTO_TEST_CASE(small_elements_beside_each_other) {
  for (unsigned long long seed = 0; seed < num_seeds; ++seed) {
    const Setup s(seed);
    test::write_small_elements(reinterpret_cast<unsigned char*>(s.results),
                               reinterpret_cast<unsigned short*>(s.results + 16), s.stream);
    s.download();
    const auto* const written = reinterpret_cast<const unsigned char*>(s.host);
    BOOST_TEST(written[63] == 63);
    BOOST_TEST(written[64 + 2 * 63] == 63);
  }
}

BOOST_AUTO_TEST_CASE(asynchronous_copies_arrive_when_they_are_waited_for) {
  for (unsigned long long seed = 0; seed < num_seeds; ++seed) {
    const Setup s(seed);
    test::copy_asynchronously(s.values, s.results, s.stream);
    s.download();
    for (int i = 0; i < 256; ++i) BOOST_TEST(s.host[i] == static_cast<float>(i));
    for (int i = 256; i < 512; ++i) BOOST_TEST(s.host[i] == (i % 4 < 2 ? static_cast<float>(i) : 0));
  }
}

BOOST_AUTO_TEST_CASE(traffic_of_strided_accesses) {
  struct Case {
    int stride;
    bool has_vectors;
    std::uint64_t bytes, sectors, shared_passes;  ///< each for reading and for writing
  };
  const Case cases[] = {{1, false, 128, 4, 1}, {2, false, 128, 8, 2}, {8, false, 128, 32, 8}, {31, false, 128, 32, 1},
                        {1, true, 512, 16, 4}, {2, true, 512, 32, 8}, {4, true, 512, 32, 16}};
  for (unsigned long long seed = 0; seed < num_seeds; ++seed) {
    const Setup s(seed);
    s.download();
    emulation::start_counting_traffic();
    for (const Case& c : cases) test::copy_strided(s.values, s.results, c.stride, c.has_vectors, s.stream);
    cudaStreamSynchronize(s.stream);
    const auto launches = emulation::take_traffic();
    BOOST_TEST_REQUIRE(launches.size() == std::size(cases));
    for (std::size_t i = 0; i < launches.size(); ++i) {
      const Case& c = cases[i];
      BOOST_TEST(launches[i].kernel == "copy_strided");
      BOOST_TEST(launches[i].read_bytes == c.bytes);
      BOOST_TEST(launches[i].written_bytes == c.bytes);
      BOOST_TEST(launches[i].sectors == 2 * c.sectors);
      BOOST_TEST(launches[i].least_sectors == 2 * c.bytes / 32);
      BOOST_TEST(launches[i].shared_passes == 2 * c.shared_passes);
      BOOST_TEST(launches[i].least_shared_passes == 2 * c.bytes / 128);
    }
  }
}

BOOST_AUTO_TEST_CASE(traffic_of_what_a_kernel_reads_again) {
  const Setup s(1);
  auto* const count = reinterpret_cast<unsigned*>(s.results + 10);
  s.download();
  emulation::start_counting_traffic();
  test::sum_by_last_block(s.values, s.size, s.results + 1, count, s.results, true, s.stream);
  test::scale(s.values, s.size, 2.0F, s.stream);
  cudaStreamSynchronize(s.stream);
  const auto launches = emulation::take_traffic();
  BOOST_TEST_REQUIRE(launches.size() == 2U);
  // Its partial sums stay in the cache from where they are written to where they are read.
  BOOST_TEST(launches[0].read_bytes == s.size * sizeof(float) + sizeof(unsigned));
  BOOST_TEST(launches[0].written_bytes == 5 * sizeof(float) + sizeof(unsigned));
  BOOST_TEST(launches[1].read_bytes == s.size * sizeof(float));
  BOOST_TEST(launches[1].written_bytes == s.size * sizeof(float));
  BOOST_TEST(launches[1].sectors == 2 * s.size * sizeof(float) / 32);
}
