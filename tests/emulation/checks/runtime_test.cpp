// SPDX-License-Identifier: Apache-2.0
#define BOOST_TEST_MODULE emulation_runtime
#include <cuda_runtime_api.h>

#include <boost/test/unit_test.hpp>
#include <vector>

#include "checks/kernels.hpp"
#include "runtime/stream_queue.hpp"

using namespace sft;

BOOST_AUTO_TEST_CASE(kernels_compute_what_they_should) {
  constexpr int size = 1000;
  for (unsigned long long seed = 0; seed < 20; ++seed) {
    emulation::set_seed(seed);
    float *values = nullptr, *total = nullptr, *host = nullptr;
    cudaStream_t stream = nullptr;
    BOOST_TEST(cudaMalloc(reinterpret_cast<void**>(&values), size * sizeof(float)) == cudaSuccess);
    BOOST_TEST(cudaMalloc(reinterpret_cast<void**>(&total), sizeof(float)) == cudaSuccess);
    BOOST_TEST(cudaMallocHost(reinterpret_cast<void**>(&host), size * sizeof(float)) == cudaSuccess);
    BOOST_TEST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
    for (int i = 0; i < size; ++i) host[i] = static_cast<float>(i);
    cudaMemcpyAsync(values, host, size * sizeof(float), cudaMemcpyDefault, stream);
    test::scale(values, size, 2, stream);
    test::sum(values, size, total, stream);
    cudaMemcpyAsync(host, total, sizeof(float), cudaMemcpyDefault, stream);
    cudaStreamSynchronize(stream);
    BOOST_TEST(host[0] == static_cast<float>(size * (size - 1)));
    cudaStreamDestroy(stream);
    cudaFree(values);
    cudaFree(total);
    cudaFreeHost(host);
  }
}
