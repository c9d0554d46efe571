// SPDX-License-Identifier: Apache-2.0
#pragma once
// Graphs of cuDNN's attention before a run needs them: which its calls will ask for, and compiling them for a GPU that
// need not be there, into the folder where a run looks for them.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sft/ops/backend.hpp"
#include "sft/ops/shapes.hpp"

namespace sft::ops {

/// What a graph is compiled for. Rows are those of packed documents, (rows, heads, D) bf16; neighbouring rows of a
/// tensor are so many elements apart. All documents are causal squares of at most `longest` rows; with longest_keys
/// queries and keys have lengths of their own. These are tails, whose queries are the last rows of their documents: the
/// last one sees all keys, each one before it a key less; or rectangles: every query sees every key of its document.
struct AttentionGraph {
  std::int64_t documents, longest;
  std::int64_t q_heads, kv_heads, head_dim;
  float scale;
  std::int64_t q_row, k_row, v_row, out_row;
  std::int64_t longest_keys = 0;  ///< of tails and rectangles; 0: squares
  bool is_tail = false;           ///< with longest_keys
  std::int64_t window = 0;        ///< how far back a query sees, itself included; 0: to its document's begin
  bool float32_out = false;       ///< of the forward pass: the result in float32, as sums of parts are
  // Of the backward pass; 0: a graph of the forward pass. `tokens`, `key_tokens`: rows of all documents, at most; of
  // squares the same.
  std::int64_t dout_row = 0, dq_row = 0, dk_row = 0, dv_row = 0, tokens = 0, key_tokens = 0;
  bool in_order = true;  ///< sums of the backward pass are in one order: it repeats its bits

  [[nodiscard]] bool is_backward() const { return tokens > 0; }
  [[nodiscard]] bool is_rectangle() const { return longest_keys > 0 && !is_tail; }
  bool operator==(const AttentionGraph&) const = default;
  /// All of it in words that a file name may have. Equal names are of equal graphs.
  [[nodiscard]] std::string name() const;
};

/// A null backend that notes for which graphs the backend of a GPU would ask cuDNN, were it given the same calls, with
/// the library that this process loads, for `kernels` of a library. `stream` outlives it. Throws a configuration Error
/// where cuDNN cannot be used.
[[nodiscard]] std::unique_ptr<Backend> make_attention_list(device::Stream& stream, AttentionKernels kernels);
/// The graphs that were noted by `list`, of make_attention_list, each once: those of its calls, for all documents that
/// it expects.
[[nodiscard]] std::vector<AttentionGraph> listed_attention(const Backend& list);
/// Of a plan, what makes its calls ask for other kinds of graphs than those of another plan do: words to compare. Pure.
[[nodiscard]] std::string kinds_of_attention(const std::vector<sequence::AttentionSpan>& spans,
                                             std::int64_t num_queries, std::int64_t num_keys);

/// A GPU that need not be there.
struct AbsentGpu {
  int compute_capability = 0;  ///< 10 * major + minor
  int multiprocessors = 0;
  int memory_bus_bits = 0;  ///< 0: as most of this compute capability have
  std::size_t memory_bytes = 0;
  std::string driver_file;  ///< that stands for its driver: src/hardware/ops/cuda/cudnn/absent_driver.cpp
};

/// A graph in the folder of compiled ones.
struct StoredAttention {
  AttentionGraph graph;
  std::string problem;  ///< why cuDNN refuses it; empty: it is there
  std::size_t bytes = 0;
  double seconds = 0;       ///< that compiling took
  bool was_stored = false;  ///< before
};

/// Compiles for `gpu`, by num_threads threads, what is not yet in the folder where a run on such a GPU looks, and puts
/// it there. In the order of `graphs`. To be called before anything in the process asks for a GPU. Throws a
/// configuration Error where cuDNN cannot be used, `gpu` is of no kind that it is told of, or the folder cannot be
/// written to.
[[nodiscard]] std::vector<StoredAttention> store_attention(const std::vector<AttentionGraph>& graphs,
                                                           const AbsentGpu& gpu, int num_threads);
/// Where that is: ~/.cache/sft/attention, or in XDG_CACHE_HOME. Empty: this user has no such folder.
[[nodiscard]] std::string attention_folder();

}  // namespace sft::ops
