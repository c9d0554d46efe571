// SPDX-License-Identifier: Apache-2.0
#pragma once
// The arithmetic of a graph.

#include <cstdint>
#include <map>
#include <string>

#include "graph.hpp"

namespace sft::emulation {

/// A graph with its memory.
struct Execution {
  OperationGraph graph;
  std::map<std::int64_t, void*> memory;   ///< of the device
  std::map<std::int64_t, float> scalars;  ///< those by value
  void* workspace = nullptr;
  std::int64_t num_workspace_bytes = 0;

  /// As queued work: device memory is readable. Every document is computed by itself, operation by operation, in float,
  /// each result rounded to the type of its tensor; sums that need not be in order begin elsewhere each time. The
  /// workspace is left with NaN. Ends the program where offsets and
  /// lengths of documents disagree.
  void run() const;
};

}  // namespace sft::emulation
