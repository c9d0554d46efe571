// SPDX-License-Identifier: Apache-2.0
// ops/attention_graphs.hpp with cuDNN.
#include <fmt/format.h>
#include <algorithm>
#include <filesystem>

#include "ops/cuda/cudnn/absent_gpu.hpp"
#include "ops/cuda/cudnn/graph_list.hpp"
#include "ops/cuda/cudnn/graph_set.hpp"
#include "ops/cuda/cudnn/store.hpp"
#include "sft/core/error.hpp"
#include "sft/ops/attention_graphs.hpp"
#include "sft/ops/factory.hpp"

namespace sft::ops {

namespace cudnn = cuda::cudnn;

namespace {

void require_library() {
  if (const std::string problem = find_attention_library().problem; !problem.empty()) {
    throw Error(ExitStatus::configuration, problem);
  }
}

}  // namespace

std::unique_ptr<Backend> make_attention_list(device::Stream& stream, AttentionKernels kernels) {
  require_library();
  return std::make_unique<cudnn::GraphList>(stream, cudnn::version().number, sums_in_order(kernels));
}

std::vector<AttentionGraph> listed_attention(const Backend& list) {
  return dynamic_cast<const cudnn::GraphList&>(list).shapes();
}

std::vector<StoredAttention> store_attention(const std::vector<AttentionGraph>& graphs, const AbsentGpu& gpu,
                                             int num_threads) {
  const cudnn::PlannedGpu planned{.properties = cudnn::properties_of(gpu),
                                  .compute_capability = gpu.compute_capability,
                                  .multiprocessors = gpu.multiprocessors};
  cudnn::load_absent_driver(gpu);
  require_library();
  cudnn::require_store();
  cudnn::Library library(planned);
  const std::vector<cudnn::CompiledGraph> compiled = cudnn::compile_graphs(
      graphs, library, [&] { return std::make_unique<cudnn::Library>(planned); }, num_threads);
  std::vector<StoredAttention> stored;
  for (std::size_t i = 0; i < graphs.size(); ++i) {
    stored.push_back({.graph = graphs[i],
                      .problem = compiled[i].problem,
                      .bytes = compiled[i].bytes.size(),
                      .seconds = compiled[i].seconds,
                      .was_stored = compiled[i].was_stored});
  }
  return stored;
}

std::string attention_folder() { return cudnn::folder_of_graphs(); }

}  // namespace sft::ops
