// SPDX-License-Identifier: Apache-2.0
#pragma once
// Compiled graphs of many shapes at once: from the store, or compiled by several threads of the host.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ops/cuda/cudnn/graph.hpp"

namespace sft::ops::cuda::cudnn {

/// A graph of one shape as bytes. Empty bytes: it was refused, and `problem` says why.
struct CompiledGraph {
  std::vector<std::uint8_t> bytes;
  std::string problem;
  double seconds = 0;       ///< that compiling took
  bool was_stored = false;  ///< by an earlier run, or by another process meanwhile
};

/// A library of a thread's own, for the same GPU. Called on that thread.
using OpenLibrary = std::function<std::unique_ptr<Library>()>;

/// Those of `shapes`, in their order, for the GPU of `library`: read from the store, or compiled, a second or two of
/// one thread each, and stored. Up to num_threads threads share the work, of which the caller, with `library`, is one.
/// Processes of one machine that are given the same shapes begin at different ones, and take what another has stored
/// meanwhile.
[[nodiscard]] std::vector<CompiledGraph> compile_graphs(const std::vector<GraphShape>& shapes, Library& library,
                                                        const OpenLibrary& open, int num_threads);

}  // namespace sft::ops::cuda::cudnn
