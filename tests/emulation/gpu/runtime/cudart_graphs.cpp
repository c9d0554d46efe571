// SPDX-License-Identifier: Apache-2.0
// The CUDA runtime's calls about graphs: those that are captured from one stream. Capture from several streams, which
// join by events, is refused.
#include <cuda_runtime_api.h>

#include <cstdlib>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "runtime/errors.hpp"
#include "runtime/host_counts.hpp"
#include "runtime/scheduler.hpp"
#include "runtime/state.hpp"
#include "runtime/stream_queue.hpp"

namespace sft::emulation {

namespace {

/// Handles of one kind. They are never freed, so that a destroyed one is known when it is used again.
template <class Graph>
class Handles {
 public:
  Graph* make(Graph graph) {
    all_.push_back(std::make_unique<Graph>(std::move(graph)));
    known_.insert(all_.back().get());
    return all_.back().get();
  }
  Graph& of(Graph* handle, const char* call) const {
    if (known_.count(handle) == 0) fault(std::string(call) + " was given a graph that never was");
    if (handle->is_destroyed) fault(std::string(call) + " was given a destroyed graph");
    return *handle;
  }
  void destroy(Graph* handle, const char* call) const {
    Graph& graph = of(handle, call);
    graph.is_destroyed = true;
    graph.nodes.clear();  // what was launched has copies
  }

 private:
  std::vector<std::unique_ptr<Graph>> all_;
  std::set<const void*> known_;
};

Handles<CUgraph_st>& graphs() {
  static auto* const the_graphs = new Handles<CUgraph_st>;
  return *the_graphs;
}
Handles<CUgraphExec_st>& executables() {
  static auto* const the_executables = new Handles<CUgraphExec_st>;
  return *the_executables;
}

/// SFT_EMULATED_GRAPHS_REFUSE: the call that fails.
bool is_refused(const std::string& call) {
  const char* const refused = std::getenv("SFT_EMULATED_GRAPHS_REFUSE");
  return refused != nullptr && call == refused;
}

}  // namespace

}  // namespace sft::emulation

using namespace sft::emulation;

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  const Lock lock(mutex());
  CUstream_st& captured = stream_of(stream, "cudaStreamBeginCapture");
  if (captured.capture != nullptr) return result(cudaErrorIllegalState);
  const bool is_default = stream == nullptr || stream == cudaStreamLegacy;
  if (is_default || is_refused("cudaStreamBeginCapture")) return result(cudaErrorStreamCaptureUnsupported);
  captured.capture = std::make_unique<StreamCapture>(StreamCapture{
      graphs().make({captured.device, {}}), std::this_thread::get_id(), mode == cudaStreamCaptureModeRelaxed});
  return result(cudaSuccess);
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  const Lock lock(mutex());
  CUstream_st& captured = stream_of(stream, "cudaStreamEndCapture");
  *graph = nullptr;
  if (captured.capture == nullptr) return result(cudaErrorIllegalState);
  const std::unique_ptr<StreamCapture> capture = std::move(captured.capture);
  if (!capture->is_relaxed && capture->thread != std::this_thread::get_id()) {
    return result(cudaErrorStreamCaptureWrongThread);
  }
  if (is_refused("cudaStreamEndCapture")) return result(cudaErrorStreamCaptureInvalidated);
  *graph = capture->graph;
  return result(cudaSuccess);
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long flags) {
  const Lock lock(mutex());
  require_no_capture("cudaGraphInstantiate");
  if (flags != 0) return result(cudaErrorInvalidValue);
  const CUgraph_st& from = graphs().of(graph, "cudaGraphInstantiate");
  if (is_refused("cudaGraphInstantiate")) return result(cudaErrorMemoryAllocation);
  *executable = executables().make({from.device, from.nodes});
  ++counts().graphs_alive;
  return result(cudaSuccess);
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  const Lock lock(mutex());
  const CUgraphExec_st& graph = executables().of(executable, "cudaGraphLaunch");
  CUstream_st& queue = stream_of(stream, "cudaGraphLaunch");
  require_not_captured(queue, "cudaGraphLaunch");
  if (graph.device != queue.device) return result(cudaErrorInvalidValue);
  for (const CUgraph_st::Node& node : graph.nodes) push(queue, node.name, node.try_run);
  ++counts().graph_launches;
  return result(cudaSuccess);
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  const Lock lock(mutex());
  graphs().destroy(graph, "cudaGraphDestroy");
  return result(cudaSuccess);
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  const Lock lock(mutex());
  executables().destroy(executable, "cudaGraphExecDestroy");
  --counts().graphs_alive;
  return result(cudaSuccess);
}
