// SPDX-License-Identifier: Apache-2.0
#pragma once
// Attention of cuDNN as one compiled graph: for so many documents of so many tokens, at these strides. Plain C++: what
// includes it needs no header of NVIDIA's frontend.

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "sft/ops/attention_graphs.hpp"

namespace sft::ops::cuda::cudnn {

using GraphShape = AttentionGraph;

/// Device memory of one call. Offsets, (documents + 1) int64, are those of the first element of each document and
/// behind the last; lengths, (documents) int32, rows of each, 0 for one that is not there.
struct GraphCall {
  const void *q, *k, *v;
  void* out;                                  ///< bf16 or float32, by the shape; only read in the backward pass
  float* lse;                                 ///< (rows, q_heads); only read in the backward pass
  const std::int32_t *lengths, *key_lengths;  ///< of squares they are the same
  const std::int64_t *q_offsets, *k_offsets, *v_offsets, *out_offsets, *lse_offsets;
  const void* dout = nullptr;
  void *dq = nullptr, *dk = nullptr, *dv = nullptr;
  const std::int64_t *dout_offsets = nullptr, *dq_offsets = nullptr, *dk_offsets = nullptr, *dv_offsets = nullptr;
};

/// cuDNN cannot do what a shape asks for, or says no: what it said.
class Refusal : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The version of the library, such as 92801; 0 where there is none that can be loaded, or this build is without
/// cuDNN's headers. `problem` says why then.
struct Version {
  std::size_t number = 0;
  std::string problem;
};
[[nodiscard]] Version version();

/// Whether this version's backward pass gives the same bits each time in memory that grows with the tokens alone.
[[nodiscard]] constexpr bool repeats_backward(std::size_t version) { return version >= 92500; }
/// The oldest version whose forward pass is used.
inline constexpr std::size_t oldest_version = 91800;
/// Whether this version's forward pass gives float32 results, which those of several calls are merged in.
[[nodiscard]] constexpr bool has_float32_results(std::size_t version) { return version >= 91900; }

/// A GPU that need not be there.
struct PlannedGpu {
  std::string properties;  ///< as the frontend writes them (JSON)
  int compute_capability;  ///< 90: 9.0
  int multiprocessors;
};

/// The library for one stream of the GPU that the calling thread has taken, or for planning alone. Not thread-safe.
class Library {
 public:
  /// Throws Refusal where the library cannot be used.
  explicit Library(cudaStream_t stream);
  explicit Library(PlannedGpu gpu);
  ~Library();
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  /// What files of compiled graphs depend on beside the shape: versions of the library and of the frontend, compute
  /// capability and number of multiprocessors of the GPU, in words that a file name may have. The same for a GPU that
  /// is there and for one that is planned for.
  [[nodiscard]] std::string name() const;

 private:
  friend class Graph;
  void* handle_ = nullptr;  ///< a cudnnHandle_t; none without a GPU
  std::optional<PlannedGpu> absent_;
  int compute_capability_ = 0;
  std::string gpu_;
};

/// A compiled graph. Lives no longer than the library it is of.
class Graph {
 public:
  /// Compiles it: a second or two of the host. Throws Refusal where the library does not support it.
  Graph(Library& library, const GraphShape& shape);
  /// From what serialize() wrote for the same library and shape. Throws Refusal where these bytes are something else.
  Graph(Library& library, const GraphShape& shape, const std::vector<std::uint8_t>& serialized);
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  [[nodiscard]] std::vector<std::uint8_t> serialize() const;
  [[nodiscard]] std::size_t workspace_bytes() const;
  /// Queues it on the library's stream. workspace: device memory of workspace_bytes(), 256-byte aligned, free again
  /// when the queued work is done. Throws Refusal where the library fails.
  void run(const GraphCall& call, void* workspace) const;

 private:
  class Parts;
  Library& library_;
  std::unique_ptr<Parts> parts_;
};

}  // namespace sft::ops::cuda::cudnn
