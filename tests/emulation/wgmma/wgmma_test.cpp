// SPDX-License-Identifier: Apache-2.0
// Products of warpgroups: what tiles and registers hold, and what a kernel may not do meanwhile.
#include <cuda_runtime_api.h>

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "checks/ends_with_fault.hpp"
#include "wgmma/wgmma_kernels.hpp"

using namespace sft;
using test::fault_of;
using test::WgmmaFault;

namespace {

constexpr int size = 64;

/// Whole numbers from -7 to 7, exact in bf16, by place.
float number(int matrix, int row, int column) {
  return static_cast<float>((row * 5 + column * 3 + row * column * (matrix + 1)) % 15 - 7);
}

std::uint16_t* matrix_on_gpu(int matrix) {
  std::vector<std::uint16_t> bits;
  for (int i = 0; i < size * size; ++i) {
    const float value = number(matrix, i / size, i % size);
    std::uint32_t all = 0;
    static_assert(sizeof all == sizeof value);
    std::memcpy(&all, &value, sizeof all);
    bits.push_back(static_cast<std::uint16_t>(all >> 16));
  }
  void* memory = nullptr;
  const std::size_t bytes = bits.size() * sizeof bits[0];
  BOOST_REQUIRE(cudaMalloc(&memory, bytes) == cudaSuccess);
  BOOST_REQUIRE(cudaMemcpy(memory, bits.data(), bytes, cudaMemcpyDefault) == cudaSuccess);
  return static_cast<std::uint16_t*>(memory);
}

std::vector<float> product(WgmmaFault fault, bool transposes_b, bool a_in_registers) {
  void* memory = nullptr;
  BOOST_REQUIRE(cudaMalloc(&memory, size * size * sizeof(float)) == cudaSuccess);
  cudaStream_t stream = nullptr;
  BOOST_REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
  const std::uint16_t *const a = matrix_on_gpu(0), *const b = matrix_on_gpu(1);
  test::multiply(fault, transposes_b, a_in_registers, a, b, static_cast<float*>(memory), stream);
  BOOST_REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
  std::vector<float> values(size * size);
  cudaMemcpy(values.data(), memory, values.size() * sizeof(float), cudaMemcpyDefault);
  return values;
}

}  // namespace

BOOST_AUTO_TEST_CASE(products_of_warpgroups_are_those_of_loops) {
  for (const bool transposes_b : {false, true}) {
    for (const bool a_in_registers : {false, true}) {
      const std::vector<float> values = product(WgmmaFault::none, transposes_b, a_in_registers);
      int num_wrong = 0;
      for (int row = 0; row < size; ++row) {
        for (int column = 0; column < size; ++column) {
          float sum = 0;
          for (int k = 0; k < size; ++k) {
            sum += number(0, row, k) * (transposes_b ? number(1, k, column) : number(1, column, k));
          }
          num_wrong += values[static_cast<std::size_t>(row * size + column)] == sum ? 0 : 1;
        }
      }
      BOOST_TEST(num_wrong == 0,
                 "transposed " << transposes_b << ", registers " << a_in_registers << ": " << num_wrong);
    }
  }
}

BOOST_AUTO_TEST_CASE(sums_are_no_numbers_before_the_wait) {
  BOOST_TEST(std::isnan(product(WgmmaFault::sums_read_before_the_wait, false, false)[0]));
}

BOOST_AUTO_TEST_CASE(wrong_use_of_warpgroups_is_caught) {
  const std::vector<std::pair<WgmmaFault, std::string>> cases{
      {WgmmaFault::no_fence, "without a wgmma.fence"},
      {WgmmaFault::copies_not_shown, "no fence.proxy.async behind the copies"},
      {WgmmaFault::no_barrier, "a race"},
      {WgmmaFault::not_waited_for, "ended before it waited for its products"},
      {WgmmaFault::registers_written_before_the_wait, "registers that wgmma reads were written"},
      {WgmmaFault::tile_written_before_the_wait, "a race"},
      {WgmmaFault::no_swizzle, "without the 128-byte swizzle"},
      {WgmmaFault::rows_from_the_middle, "not the first of 8"},
      {WgmmaFault::beyond_shared_memory, "beyond the block's shared memory"},
      {WgmmaFault::other_products_in_a_warp, "has started other products than the first of its warpgroup"},
  };
  for (const auto& [fault, words] : cases) {
    const std::string text = fault_of([fault = fault] { (void)product(fault, true, true); });
    BOOST_TEST(text.find(words) != std::string::npos, "`" << words << "` is not in: " << text);
  }
}
