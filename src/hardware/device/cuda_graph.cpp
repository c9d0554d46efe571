// SPDX-License-Identifier: Apache-2.0
#include "cuda_graph.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cuda_stream.hpp"
#include "sft/core/gpu_launches.hpp"
#include "sft/core/log.hpp"

namespace sft::device {

namespace {

class CudaGraph final : public Recording {
 public:
  /// `names`: of its launches.
  CudaGraph(cudaGraphExec_t graph, cudaStream_t stream, std::vector<const char*> names, std::function<void()> mark)
      : graph_(graph), stream_(stream), names_(std::move(names)), mark_(std::move(mark)) {}
  ~CudaGraph() override { cudaGraphExecDestroy(graph_); }
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;

  void launch() override {
    for (const char* const name : names_) note_launch(name, stream_);
    check_cuda(cudaGraphLaunch(graph_, stream_), "cudaGraphLaunch");
    mark_();
  }

 private:
  cudaGraphExec_t graph_;
  cudaStream_t stream_;
  std::vector<const char*> names_;
  std::function<void()> mark_;
};

/// Nothing of what was to be recorded is queued. Throws where the reason is a kernel that broke off.
std::unique_ptr<Recording> refuse(cudaError_t code, const char* call) {
  throw_if_of_a_kernel(code, cudaGetErrorString(code));
  (void)cudaGetLastError();  // or the next check of a kernel launch would find it
  log_warning(
      fmt::format("launches on the GPU are made one by one, as none could be recorded ({}: {}): set "
                  "device.cuda_graphs = false, and report it",
                  call, cudaGetErrorString(code)));
  return nullptr;
}

}  // namespace

std::unique_ptr<Recording> CudaGraphRecorder::record(std::size_t /*num_launches*/, const Launch& launches) {
  cudaError_t code = cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal);
  if (code != cudaSuccess) return refuse(code, "cudaStreamBeginCapture");
  cudaGraph_t graph = nullptr;
  const std::uint64_t first_launch = num_launches();
  try {
    launches();
  } catch (...) {
    // A launch that the capture does not bear is made again, plainly, and throws there what else is wrong with it.
    code = cudaStreamEndCapture(stream_, &graph);
    if (graph != nullptr) cudaGraphDestroy(graph);
    return refuse(code != cudaSuccess ? code : cudaErrorStreamCaptureUnsupported, "a launch");
  }
  code = cudaStreamEndCapture(stream_, &graph);
  if (code != cudaSuccess || graph == nullptr) return refuse(code, "cudaStreamEndCapture");
  cudaGraphExec_t executable = nullptr;
  code = cudaGraphInstantiateWithFlags(&executable, graph, 0);
  cudaGraphDestroy(graph);
  if (code != cudaSuccess) return refuse(code, "cudaGraphInstantiate");
  return std::make_unique<CudaGraph>(executable, stream_, launches_since(first_launch, stream_), mark_);
}

}  // namespace sft::device
