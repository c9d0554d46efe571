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

namespace sft::ops::cuda::cudnn {

/// What a graph is compiled for. Rows are those of packed documents, (rows, heads, D) bf16; neighbouring rows of a
/// tensor are so many elements apart. All documents are causal squares of at most `longest` rows; with longest_keys
/// they are rectangles of so many keys at most, of the forward pass alone: queries and keys have lengths of their own,
/// and every query sees every key of its document.
struct GraphShape {
  std::int64_t documents, longest;
  std::int64_t q_heads, kv_heads, head_dim;
  float scale;
  std::int64_t q_row, k_row, v_row, out_row;
  std::int64_t longest_keys = 0;  ///< of rectangles; 0: squares
  std::int64_t window = 0;        ///< how far back a query sees, itself included; 0: to its document's begin
  bool float32_out = false;       ///< of the forward pass: the result in float32, as sums of parts are
  // Of the backward pass; 0: a graph of the forward pass. `tokens`: rows of all documents, at most.
  std::int64_t dout_row = 0, dq_row = 0, dk_row = 0, dv_row = 0, tokens = 0;

  [[nodiscard]] bool is_backward() const { return tokens > 0; }
  [[nodiscard]] bool is_rectangle() const { return longest_keys > 0; }
  bool operator==(const GraphShape&) const = default;
  /// All of it in words that a file name may have.
  [[nodiscard]] std::string name() const;
};

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

/// A GPU that need not be there: its properties as the frontend writes them (JSON).
struct AbsentGpu {
  std::string properties;
  int compute_capability;  ///< 90: 9.0
};

/// The library for one stream of the GPU that the calling thread has taken, or for planning alone. Not thread-safe.
class Library {
 public:
  /// Throws Refusal where the library cannot be used.
  explicit Library(cudaStream_t stream);
  explicit Library(AbsentGpu gpu);
  ~Library();
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  /// What files of compiled graphs depend on beside the shape: version and GPU, in words that a file name may have.
  [[nodiscard]] std::string name() const;

 private:
  friend class Graph;
  void* handle_ = nullptr;  ///< a cudnnHandle_t; none without a GPU
  std::optional<AbsentGpu> absent_;
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
