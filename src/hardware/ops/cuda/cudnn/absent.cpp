// SPDX-License-Identifier: Apache-2.0
// What a build without cuDNN's headers answers: there is none.
#include "ops/cuda/cudnn/graph.hpp"

namespace sft::ops::cuda::cudnn {

namespace {

constexpr const char* problem =
    "cuDNN's attention cannot be used (this program was built without the headers of cuDNN and of its frontend): "
    "install libcudnn9-dev, `pip install nvidia-cudnn-frontend` (docs/clusters.md), and build again, or leave "
    "device.attention out";

}  // namespace

class Graph::Parts {};

Version version() { return {0, problem}; }

Library::Library(cudaStream_t) { throw Refusal(problem); }
Library::Library(PlannedGpu) { throw Refusal(problem); }
Library::~Library() = default;
std::string Library::name() const { return {}; }

Graph::Graph(Library& library, const GraphShape&) : library_(library) { throw Refusal(problem); }
Graph::Graph(Library& library, const GraphShape&, const std::vector<std::uint8_t>&) : library_(library) {
  throw Refusal(problem);
}
Graph::~Graph() = default;
std::vector<std::uint8_t> Graph::serialize() const { return {}; }
std::size_t Graph::workspace_bytes() const { return 0; }
void Graph::run(const GraphCall&, void*) const { throw Refusal(problem); }

}  // namespace sft::ops::cuda::cudnn
