// SPDX-License-Identifier: Apache-2.0
// The emulated cuBLAS multiplies groups as the real one is documented to, and refuses what that refuses.

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include <boost/test/unit_test.hpp>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "checks/ends_with_fault.hpp"
#include "handle.hpp"

namespace {

constexpr std::size_t room_bytes = std::size_t{1} << 16;

/// Device memory, of NaN at first.
class Block {
 public:
  Block() {
    BOOST_REQUIRE(cudaMalloc(&data_, room_bytes) == cudaSuccess);
    BOOST_REQUIRE(cudaMemset(data_, 0xff, room_bytes) == cudaSuccess);
    BOOST_REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  }
  ~Block() { cudaFree(data_); }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  [[nodiscard]] std::byte* data() const { return static_cast<std::byte*>(data_); }
  void put(const void* from, std::size_t bytes, std::size_t at = 0) {
    BOOST_REQUIRE(cudaMemcpy(data() + at, from, bytes, cudaMemcpyHostToDevice) == cudaSuccess);
  }

 private:
  void* data_ = nullptr;
};

float input(std::size_t i) { return static_cast<float>(i * 7 % 11) - 4.5f; }

/// Two groups, of m x 8 x 8 and m x 16 x k products, and what goes wrong with them.
struct Case {
  cudaDataType type = CUDA_R_32F, c_type = CUDA_R_32F;
  float beta = 1.0f;
  int m = 8, k = 8, lda_less = 0;
  std::size_t shift_a = 0;  ///< bytes
  bool pointers_in_host_memory = false, pointers_in_workspace = false, no_workspace = false, same_result = false,
       destroyed = false;
};

struct Outcome {
  cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
  std::string why = {};
  bool is_right = false;
};

Outcome run(const Case& c) {
  Block a, b, results, pointers, workspace;
  const std::size_t element = c.type == CUDA_R_16BF ? 2 : 4, count = 1024;
  std::vector<float> numbers(count);
  std::vector<std::byte> bytes(count * element);
  for (std::size_t i = 0; i < count; ++i) {
    numbers[i] = input(i);
    const __nv_bfloat16 rounded = __float2bfloat16_rn(numbers[i]);
    if (element == 2) {
      std::memcpy(bytes.data() + i * 2, &rounded, 2);
    } else {
      std::memcpy(bytes.data() + i * 4, &numbers[i], 4);
    }
  }
  for (Block* block : {&a, &b, &results}) block->put(bytes.data(), bytes.size(), block == &a ? c.shift_a : 0);
  cublasHandle_t handle = nullptr;
  BOOST_REQUIRE(cublasCreate_v2(&handle) == CUBLAS_STATUS_SUCCESS);
  cudaStream_t stream = nullptr;
  BOOST_REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
  BOOST_REQUIRE(cublasSetStream_v2(handle, stream) == CUBLAS_STATUS_SUCCESS);
  if (!c.no_workspace) {
    BOOST_REQUIRE(cublasSetWorkspace_v2(handle, workspace.data(), room_bytes) == CUBLAS_STATUS_SUCCESS);
  }
  const int m[] = {c.m, c.m}, n[] = {8, 16}, k[] = {8, c.k};
  const int lda[] = {8 - c.lda_less, 8}, ldb[] = {8, 8}, ldc[] = {8, 8}, sizes[] = {1, 1};
  const cublasOperation_t none[] = {CUBLAS_OP_N, CUBLAS_OP_N};
  const float alpha[] = {1.0f, 1.0f}, beta[] = {c.beta, c.beta};
  const std::size_t second = 64 * element;  // behind the first product's operands
  std::byte* const addresses[] = {a.data() + c.shift_a,
                                  a.data() + c.shift_a + second,
                                  b.data(),
                                  b.data() + second,
                                  results.data(),
                                  results.data() + (c.same_result ? 0 : second)};
  pointers.put(static_cast<const void*>(addresses), sizeof(addresses));
  const std::byte* first = c.pointers_in_workspace ? workspace.data() : pointers.data();
  if (c.pointers_in_host_memory) first = reinterpret_cast<const std::byte*>(addresses);
  if (c.destroyed) cublasDestroy_v2(handle);
  const auto array = [&](int i) { return reinterpret_cast<void* const*>(first + i * 2 * sizeof(void*)); };
  Outcome outcome;
  outcome.status = cublasGemmGroupedBatchedEx(handle, none, none, m, n, k, alpha, array(0), c.type, lda, array(1),
                                              c.type, ldb, beta, array(2), c.c_type, ldc, 2, sizes, CUBLAS_COMPUTE_32F);
  outcome.why = sft::emulation::last_cublas_refusal();
  std::vector<std::byte> got(bytes.size());
  BOOST_REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
  BOOST_REQUIRE(cudaMemcpy(got.data(), results.data(), got.size(), cudaMemcpyDeviceToHost) == cudaSuccess);
  outcome.is_right = outcome.status == CUBLAS_STATUS_SUCCESS;
  for (int group = 0; outcome.is_right && group < 2; ++group) {
    for (int column = 0; column < n[group]; ++column) {
      for (int row = 0; row < m[group]; ++row) {
        const int base = group * 64, at = base + column * 8 + row;
        float sum = 0;
        for (int i = 0; i < k[group]; ++i) {
          sum += input(static_cast<std::size_t>(base + i * 8 + row)) *
                 input(static_cast<std::size_t>(base + column * 8 + i));
        }
        sum += c.beta != 0.0f ? c.beta * input(static_cast<std::size_t>(at)) : 0.0f;
        float value = 0;
        if (element == 2) {
          __nv_bfloat16 rounded;
          std::memcpy(&rounded, got.data() + at * 2, 2);
          value = __bfloat162float(rounded);
          sum = __bfloat162float(__float2bfloat16_rn(sum));
        } else {
          std::memcpy(&value, got.data() + at * 4, 4);
        }
        outcome.is_right = outcome.is_right && value == sum;
      }
    }
  }
  if (!c.destroyed) BOOST_TEST(cublasDestroy_v2(handle) == CUBLAS_STATUS_SUCCESS);
  cudaStreamDestroy(stream);
  return outcome;
}

void expect_refusal(const Case& c, cublasStatus_t status, const std::string& words) {
  const Outcome outcome = run(c);
  BOOST_TEST(outcome.status == status, words);
  BOOST_TEST(outcome.why.find(words) != std::string::npos, outcome.why);
}

}  // namespace

BOOST_AUTO_TEST_CASE(groups_are_the_products_of_each) {
  for (const cudaDataType type : {CUDA_R_32F, CUDA_R_16BF}) {
    for (const float beta : {0.0f, 1.0f}) BOOST_TEST(run({.type = type, .c_type = type, .beta = beta}).is_right);
  }
  BOOST_TEST(run({.no_workspace = true}).is_right);
  BOOST_TEST(run({.k = 5}).is_right);
  BOOST_TEST(run({.shift_a = 4}).is_right);  // float32 may lie anywhere
}

BOOST_AUTO_TEST_CASE(what_the_library_does_not_have_is_refused) {
  expect_refusal({.type = CUDA_R_16BF}, CUBLAS_STATUS_NOT_SUPPORTED, "not in cublasGemmGroupedBatchedEx's table");
  expect_refusal({.k = 0}, CUBLAS_STATUS_INVALID_VALUE, "group 1 has a size of zero");
  expect_refusal({.m = 0}, CUBLAS_STATUS_INVALID_VALUE, "group 0 has a size of zero");
  expect_refusal({.lda_less = 1}, CUBLAS_STATUS_INVALID_VALUE, "leading dimension of A of 7");
  expect_refusal({.pointers_in_host_memory = true}, CUBLAS_STATUS_INVALID_VALUE, "not in the device's memory");
  expect_refusal({.pointers_in_workspace = true}, CUBLAS_STATUS_INVALID_VALUE, "lies in the library's workspace");
  expect_refusal({.destroyed = true}, CUBLAS_STATUS_NOT_INITIALIZED, "destroyed");
}

BOOST_AUTO_TEST_CASE(what_only_the_gpu_finds_is_a_fault) {
  const auto expect_fault = [](const Case& c, const std::string& words) {
    const std::string text = sft::test::fault_of([&] { run(c); });
    BOOST_TEST(text.find(words) != std::string::npos, text);
  };
  expect_fault({.type = CUDA_R_16BF, .c_type = CUDA_R_16BF, .shift_a = 2}, "less aligned than its sizes ask for");
  expect_fault({.same_result = true}, "two results share memory");
}
