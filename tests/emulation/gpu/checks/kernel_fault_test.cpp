// SPDX-License-Identifier: Apache-2.0
// A kernel that breaks off is found later, and from then on CUDA gives nothing but its error.
#include <cuda_runtime_api.h>

#include <boost/test/unit_test.hpp>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "checks/ends_with_fault.hpp"
#include "checks/kernels.hpp"

using namespace sft;

namespace {

/// What `action` prints to standard error in a process of its own, where `kernel` breaks off.
std::string printed_where(const char* kernel, const std::function<void()>& action) {
  const std::string text = test::fault_of([&] {
    setenv("SFT_EMULATED_KERNEL_FAULT", kernel, 1);
    action();
  });
  const std::string ended_well = "no fault (wait status 0): ";
  return text.starts_with(ended_well) ? text.substr(ended_well.size()) : text;
}

void print(const std::string& text) { std::fputs(text.c_str(), stderr); }

struct Setup {
  static constexpr int size = 100;
  static constexpr std::size_t bytes = size * sizeof(float);
  cudaStream_t stream = nullptr;
  cudaEvent_t event = nullptr;
  float *values = nullptr, *host = nullptr, pageable[size] = {};

  Setup() {
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    cudaEventCreate(&event);
    cudaMalloc(reinterpret_cast<void**>(&values), bytes);
    cudaMallocHost(reinterpret_cast<void**>(&host), bytes);
    cudaMemsetAsync(values, 0, bytes, stream);
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(the_launch_that_was_meant_breaks_off_when_it_runs) {
  const std::string text = printed_where("scale:3", [] {
    Setup s;
    for (int i = 0; i < 2; ++i) test::scale(s.values, s.size, 2, s.stream);
    test::sum(s.values, s.size, s.values, s.stream);
    print("before: " + std::to_string(cudaStreamSynchronize(s.stream)));
    test::scale(s.values, s.size, 2, s.stream);
    print(", queued: " + std::to_string(cudaPeekAtLastError()));
    print(", waited for: " + std::to_string(cudaStreamSynchronize(s.stream)));
  });
  BOOST_TEST(text == "before: 0, queued: 0, waited for: 700");
}

BOOST_AUTO_TEST_CASE(then_every_call_gives_its_error) {
  const std::string text = printed_where("scale", [] {
    Setup s;
    test::scale(s.values, s.size, 2, s.stream);
    (void)cudaDeviceSynchronize();
    void* memory = nullptr;
    std::size_t free_bytes = 0, all_bytes = 0;
    cudaGraph_t graph = nullptr;
    const std::vector<std::pair<const char*, std::function<cudaError_t()>>> calls{
        {"cudaPeekAtLastError", [] { return cudaPeekAtLastError(); }},
        {"cudaGetLastError", [] { return cudaGetLastError(); }},
        {"cudaGetLastError, once more", [] { return cudaGetLastError(); }},
        {"cudaStreamQuery", [&] { return cudaStreamQuery(s.stream); }},
        {"cudaStreamSynchronize", [&] { return cudaStreamSynchronize(s.stream); }},
        {"cudaDeviceSynchronize", [] { return cudaDeviceSynchronize(); }},
        {"cudaEventRecord", [&] { return cudaEventRecord(s.event, s.stream); }},
        {"cudaEventQuery", [&] { return cudaEventQuery(s.event); }},
        {"cudaEventSynchronize", [&] { return cudaEventSynchronize(s.event); }},
        {"cudaStreamWaitEvent", [&] { return cudaStreamWaitEvent(s.stream, s.event, 0); }},
        {"cudaMemcpy", [&] { return cudaMemcpy(s.pageable, s.values, s.bytes, cudaMemcpyDeviceToHost); }},
        {"cudaMemcpyAsync", [&] { return cudaMemcpyAsync(s.host, s.values, s.bytes, cudaMemcpyDefault, s.stream); }},
        {"cudaMemsetAsync", [&] { return cudaMemsetAsync(s.values, 0, s.bytes, s.stream); }},
        {"cudaMalloc", [&] { return cudaMalloc(&memory, 1); }},
        {"cudaMallocHost", [&] { return cudaMallocHost(&memory, 1); }},
        {"cudaMemGetInfo", [&] { return cudaMemGetInfo(&free_bytes, &all_bytes); }},
        {"cudaStreamBeginCapture", [&] { return cudaStreamBeginCapture(s.stream, cudaStreamCaptureModeThreadLocal); }},
        {"cudaStreamEndCapture", [&] { return cudaStreamEndCapture(s.stream, &graph); }},
        {"cudaFree", [&] { return cudaFree(s.values); }}};
    for (const auto& [name, call] : calls) {
      if (const cudaError_t code = call(); code != cudaErrorIllegalAddress) {
        print(std::string(name) + " gave " + std::to_string(code) + "; ");
      }
    }
    print("all were called");
  });
  BOOST_TEST(text == "all were called");
}

BOOST_AUTO_TEST_CASE(a_launch_behind_it_throws) {
  const std::string text = printed_where("scale", [] {
    Setup s;
    test::sum(s.values, s.size, s.values, s.stream);
    test::scale(s.values, s.size, 2, s.stream);
    (void)cudaDeviceSynchronize();
    try {
      test::sum(s.values, s.size, s.values, s.stream);
    } catch (const std::runtime_error& error) {
      print(error.what());
    }
  });
  BOOST_TEST(text == "kernel sum was not launched (an illegal memory access was encountered)");
}

BOOST_AUTO_TEST_CASE(a_repeated_kernel_breaks_off_in_its_graph) {
  const std::string text = printed_where("scale:2", [] {
    Setup s;
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    cudaStreamBeginCapture(s.stream, cudaStreamCaptureModeThreadLocal);
    test::scale(s.values, s.size, 2, s.stream);
    cudaStreamEndCapture(s.stream, &graph);
    cudaGraphInstantiateWithFlags(&executable, graph, 0);
    for (int i = 0; i < 2; ++i) {
      cudaGraphLaunch(executable, s.stream);
      print(std::to_string(cudaStreamSynchronize(s.stream)) + " ");
    }
  });
  BOOST_TEST(text == "0 700 ");
}
