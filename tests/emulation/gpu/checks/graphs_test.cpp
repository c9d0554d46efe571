// SPDX-License-Identifier: Apache-2.0
// Graphs as CUDA captures and launches them, and what may not be done meanwhile.
#include <cuda_runtime_api.h>

#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <functional>
#include <string>

#include "checks/ends_with_fault.hpp"
#include "checks/kernels.hpp"
#include "runtime/stream_queue.hpp"

using namespace sft;
using test::fault_of;

namespace {

constexpr int size = 64;
constexpr std::size_t bytes = size * sizeof(float);

/// A stream, device memory and pinned memory.
struct Setup {
  cudaStream_t stream = nullptr, other = nullptr;
  cudaEvent_t event = nullptr;
  float *device = nullptr, *pinned = nullptr;

  Setup() {
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking);
    cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
    cudaMalloc(reinterpret_cast<void**>(&device), bytes);
    cudaMallocHost(reinterpret_cast<void**>(&pinned), bytes);
    for (int i = 0; i < size; ++i) pinned[i] = 1;
    cudaMemcpyAsync(device, pinned, bytes, cudaMemcpyDefault, stream);
  }
  void begin() const { cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal); }
  [[nodiscard]] cudaGraphExec_t end() const {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    BOOST_TEST(cudaStreamEndCapture(stream, &graph) == cudaSuccess);
    BOOST_TEST(cudaGraphInstantiateWithFlags(&executable, graph, 0) == cudaSuccess);
    cudaGraphDestroy(graph);
    return executable;
  }
  [[nodiscard]] float first() const {
    cudaMemcpyAsync(pinned, device, bytes, cudaMemcpyDefault, stream);
    cudaStreamSynchronize(stream);
    return pinned[0];
  }
};

void expect_fault(const std::function<void(Setup&)>& action, const std::string& words) {
  const std::string text = fault_of([&] {
    Setup setup;
    setup.begin();
    action(setup);
  });
  BOOST_TEST(text.find(words) != std::string::npos, "`" << words << "` is not in: " << text);
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_graph_does_what_was_captured_each_time) {
  Setup s;
  const emulation::HostCounts before = emulation::host_counts();
  s.begin();
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  BOOST_TEST(cudaStreamIsCapturing(s.stream, &status) == cudaSuccess);
  BOOST_TEST(status == cudaStreamCaptureStatusActive);
  test::scale(s.device, size, 3, s.stream);
  test::scale(s.device, size, 2, s.stream);
  const cudaGraphExec_t graph = s.end();
  BOOST_TEST(s.first() == 1);  // capturing does nothing
  cudaGraphLaunch(graph, s.stream);
  cudaGraphLaunch(graph, s.stream);
  cudaGraphExecDestroy(graph);  // what was launched goes on
  BOOST_TEST(s.first() == 36);
  BOOST_TEST(emulation::host_counts().launches == before.launches);
  BOOST_TEST(emulation::host_counts().graph_launches == before.graph_launches + 2);
  BOOST_TEST(emulation::host_counts().graphs_alive == before.graphs_alive);
}

BOOST_AUTO_TEST_CASE(a_graph_is_ordered_with_its_stream_alone) {
  const std::string text = fault_of([] {
    Setup s;
    s.begin();
    test::scale(s.device, size, 2, s.stream);
    const cudaGraphExec_t graph = s.end();
    cudaGraphLaunch(graph, s.stream);
    test::scale(s.device, size, 2, s.other);
    cudaDeviceSynchronize();
  });
  BOOST_TEST(text.find("a race between streams") != std::string::npos, text);
}

BOOST_AUTO_TEST_CASE(what_a_capture_does_not_bear_is_refused) {
  expect_fault([](Setup& s) { cudaStreamSynchronize(s.stream); }, "cudaStreamSynchronize of a stream that is captured");
  expect_fault([](Setup& s) { cudaStreamQuery(s.stream); }, "cudaStreamQuery of a stream that is captured");
  expect_fault([](Setup& s) { cudaEventRecord(s.event, s.stream); }, "cudaEventRecord of a stream that is captured");
  expect_fault([](Setup& s) { cudaStreamWaitEvent(s.stream, s.event, 0); }, "cudaStreamWaitEvent of a stream that is");
  expect_fault([](Setup& s) { cudaStreamSynchronize(s.other); }, "a wait of the host while this thread captures");
  expect_fault([](Setup&) { cudaDeviceSynchronize(); }, "while this thread captures a stream");
  expect_fault([](Setup& s) { cudaFree(s.device); }, "cudaFree while this thread captures a stream");
  expect_fault(
      [](Setup&) {
        void* memory = nullptr;
        cudaMalloc(&memory, bytes);
      },
      "cudaMalloc, or cudaMallocHost, while this thread captures a stream");
  expect_fault([](Setup& s) { test::scale(s.device, size, 2, nullptr); }, "kernel scale while this thread captures");
  expect_fault(
      [](Setup& s) {
        float pageable[size] = {};
        cudaMemcpyAsync(s.device, pageable, bytes, cudaMemcpyDefault, s.stream);
      },
      "a copy of pageable memory of a stream that is captured");
  expect_fault(
      [](Setup& s) {
        const cudaGraphExec_t graph = s.end();
        cudaGraphExecDestroy(graph);
        cudaGraphLaunch(graph, s.stream);
      },
      "cudaGraphLaunch was given a destroyed graph");
  expect_fault(
      [](Setup& s) {
        test::scale(s.device, size, 2, s.stream);
        const cudaGraphExec_t graph = s.end();
        cudaStreamSynchronize(s.stream);
        cudaFree(s.device);
        cudaGraphLaunch(graph, s.stream);
        cudaDeviceSynchronize();
      },
      "kernel scale");
}

BOOST_AUTO_TEST_CASE(calls_that_are_to_fail_fail) {
  Setup s;
  cudaGraph_t graph = nullptr;
  BOOST_TEST(cudaStreamEndCapture(s.stream, &graph) == cudaErrorIllegalState);
  BOOST_TEST(cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeRelaxed) == cudaErrorStreamCaptureUnsupported);
  setenv("SFT_EMULATED_GRAPHS_REFUSE", "cudaStreamEndCapture", 1);
  s.begin();
  BOOST_TEST(cudaStreamEndCapture(s.stream, &graph) == cudaErrorStreamCaptureInvalidated);
  BOOST_TEST(graph == nullptr);
  unsetenv("SFT_EMULATED_GRAPHS_REFUSE");
  BOOST_TEST(s.first() == 1);  // the stream is captured no more
  BOOST_TEST(cudaGetLastError() == cudaErrorStreamCaptureInvalidated);
}
