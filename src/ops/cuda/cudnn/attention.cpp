// SPDX-License-Identifier: Apache-2.0
#include "ops/cuda/cudnn/attention.hpp"

#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <limits>

#include "ops/cuda/attention_calls.hpp"
#include "ops/cuda/cudnn/store.hpp"
#include "ops/cuda/cudnn/working_memory.hpp"
#include "ops/cuda/kernels/kernels.hpp"
#include "ops/cuda/view.hpp"
#include "sft/core/log.hpp"

namespace sft::ops::cuda::cudnn {

namespace {

/// Whether every head begins at a multiple of 16 bytes.
template <class Memory>
bool is_aligned(const BasicTensor<Memory>& heads) {
  const std::int64_t elements = 16 / static_cast<std::int64_t>(size_of(heads.dtype));
  return heads.stride0 % elements == 0 && heads.shape[2] % elements == 0 &&
         reinterpret_cast<std::uintptr_t>(heads.data) % 16 == 0;
}

/// Whether cuDNN can read or write these heads: aligned bf16.
template <class Memory>
bool is_readable(const BasicTensor<Memory>& heads) {
  return heads.dtype == DType::bf16 && is_aligned(heads);
}

template <class... Heads>
bool are_readable(const Heads&... heads) {
  return (is_readable(heads) && ...);
}

/// What forward and backward have in common.
template <class Call>
GraphShape shape_of(const Call& call, const Documents& documents, std::int64_t out_row) {
  return {.documents = documents.num_documents(),
          .longest = documents.longest(),
          .q_heads = call.q.shape[1],
          .kv_heads = call.k.shape[1],
          .head_dim = call.q.shape[2],
          .scale = call.scale,
          .q_row = call.q.stride0,
          .k_row = call.k.stride0,
          .v_row = call.v.stride0,
          .out_row = out_row,
          .window = documents.window()};
}

/// Memory of the pool for the time of a call: free again for what is queued behind it on the same stream.
class Loan {
 public:
  Loan(PlanPool& pool, std::size_t bytes) : pool_(pool), memory_(pool.take_if_free(bytes)) {}
  ~Loan() { pool_.give_back(memory_); }
  Loan(const Loan&) = delete;
  Loan& operator=(const Loan&) = delete;
  [[nodiscard]] std::byte* data() const { return static_cast<std::byte*>(memory_); }

 private:
  PlanPool& pool_;
  void* memory_;
};

std::size_t padded(std::size_t bytes) {
  return (bytes + PlanPool::granularity_bytes - 1) / PlanPool::granularity_bytes * PlanPool::granularity_bytes;
}

/// Heads of rows one behind the other.
Tensor contiguous_like(const Tensor& heads, void* data) {
  return {data, heads.dtype, {heads.shape[0], heads.shape[1], heads.shape[2]}};
}

}  // namespace

std::int64_t rounded_tokens(std::int64_t tokens) {
  const auto power = static_cast<std::int64_t>(std::bit_floor<std::uint64_t>(std::max<std::int64_t>(tokens, 1)));
  const std::int64_t step = std::max<std::int64_t>(power / 4, 256);
  return (tokens + step - 1) / step * step;
}

std::size_t pool_bytes(const AttentionNeeds& needs) {
  const auto& library = needs.library;
  if (library.tokens == 0) return 0;
  // Two generations of plans at a time, anywhere in the pool: see plan_pool_bytes.
  std::size_t bytes = 3 * static_cast<std::size_t>(needs.num_kinds) * documents_bytes(library.tokens);
  if (library.merges) {
    bytes += 3 * static_cast<std::size_t>(needs.num_kinds * needs.num_plans) * rectangle_lists_bytes();
    bytes += padded(rectangle_sums_bytes(std::min(library.tokens, rectangle_rows), library.q_heads, library.head_dim));
  }
  if (!library.has_backward) return bytes + padded(forward_bytes);
  const std::int64_t tokens = rounded_tokens(library.tokens);
  const std::int64_t dq_row = (library.q_heads + 2 * library.kv_heads) * library.head_dim;  // of a fused product
  const std::size_t keys_bytes =
      padded(static_cast<std::size_t>(library.tokens * library.kv_heads * library.head_dim) * size_of(DType::bf16));
  return bytes + 2 * keys_bytes +
         padded(backward_bytes(tokens, library.q_heads, library.kv_heads, library.head_dim, dq_row));
}

void Attention::say_short_of(std::size_t bytes) {
  if (has_said_short_) return;
  has_said_short_ = true;
  log_warning(fmt::format(
      "attention: this program's kernels where cuDNN asks for {} bytes, more than is planned for it", bytes));
}

void Attention::expect(const PackedDocuments& documents, std::int64_t num_rows) {
  const Expected expected{documents.num_rounded(), documents.longest_rounded(), documents.window,
                          rounded_tokens(num_rows)};
  if (std::ranges::find(expected_, expected) == expected_.end()) expected_.push_back(expected);
}

const Graph* Attention::graph_of(const GraphShape& shape) {
  const std::string name = shape.name();
  if (!graphs_.contains(name)) add_graphs(shapes_like(shape));
  return graphs_.at(name).get();
}

std::vector<GraphShape> Attention::shapes_like(const GraphShape& shape) const {
  std::vector<GraphShape> shapes = {shape};
  if (shape.is_rectangle()) return shapes;  // one for all of its tensors
  for (const Expected& expected : expected_) {
    GraphShape like = shape;
    like.documents = expected.documents;
    like.longest = expected.longest;
    like.window = expected.window;
    if (shape.is_backward()) like.tokens = expected.tokens;
    const bool is_new = std::ranges::find(shapes, like) == shapes.end() && !graphs_.contains(like.name());
    if (is_new) shapes.push_back(like);
  }
  return shapes;
}

std::unique_ptr<Graph> Attention::load(const GraphShape& shape, CompiledGraph& compiled) {
  if (!compiled.problem.empty()) return nullptr;
  try {
    return std::make_unique<Graph>(library_, shape, compiled.bytes);
  } catch (const Refusal&) {  // of another build of the library, or damaged: compiled and stored anew
    compiled.was_stored = false;
  }
  try {
    auto graph = std::make_unique<Graph>(library_, shape);
    write_graph(library_.name() + "-" + shape.name(), graph->serialize());
    return graph;
  } catch (const Refusal& refusal) {
    compiled.problem = refusal.what();
    return nullptr;
  }
}

void Attention::add_graphs(const std::vector<GraphShape>& shapes) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  int device = 0;
  (void)cudaGetDevice(&device);
  const OpenLibrary open = [device] {
    (void)cudaSetDevice(device);
    return std::make_unique<Library>(/*stream=*/nullptr);
  };
  const int num_threads = omp_get_max_threads();
  std::vector<CompiledGraph> compiled = compile_graphs(shapes, library_, open, num_threads);
  std::size_t num_stored = 0, num_refused = 0;
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    std::unique_ptr<Graph> graph = load(shapes[i], compiled[i]);
    if (compiled[i].was_stored) ++num_stored;
    if (graph == nullptr && num_refused++ == 0) {
      log_warning(fmt::format("attention: this program's kernels where cuDNN refuses {} ({})", shapes[i].name(),
                              compiled[i].problem));
    }
    graphs_.emplace(shapes[i].name(), std::move(graph));
  }
  if (num_refused > 1) log_warning(fmt::format("attention: cuDNN refuses {} more like that", num_refused - 1));
  if (expected_.empty()) return;
  log_event(
      fmt::format("attention: graphs of cuDNN for the documents to come: {} compiled, {} from the folder of compiled "
                  "ones, in {:.1f} s",
                  shapes.size() - num_stored - num_refused, num_stored,
                  std::chrono::duration<double>(Clock::now() - start).count()));
}

void Attention::fill_outside(const Tensor& x, const Documents& documents, float value) const {
  for (const RowRange& rows : documents.outside()) fill(view_of(x.rows(rows.begin, rows.count)), value, stream_);
}

bool Attention::forward(const AttentionForward& attention, Documents& documents) {
  const AttentionForward& a = attention;
  if (a.merge || a.softcap != 0.0F || !a.sinks.empty() || !are_readable(a.q, a.k, a.v)) return false;
  const bool is_sum = a.out.dtype == DType::float32;
  if (!is_aligned(a.out) || (is_sum && !has_float32_results(version().number))) return false;
  GraphShape shape = shape_of(a, documents, a.out.stride0);
  shape.float32_out = is_sum;
  const Graph* graph = graph_of(shape);
  if (graph == nullptr) return false;
  const Loan workspace(pool_, std::max<std::size_t>(graph->workspace_bytes(), 1));
  if (workspace.data() == nullptr) {
    say_short_of(graph->workspace_bytes());
    return false;
  }
  graph->run({.q = a.q.data,
              .k = a.k.data,
              .v = a.v.data,
              .out = a.out.data,
              .lse = floats_of(a.lse),
              .lengths = documents.lengths(),
              .key_lengths = documents.lengths(),
              .q_offsets = documents.offsets(a.q.stride0),
              .k_offsets = documents.offsets(a.k.stride0),
              .v_offsets = documents.offsets(a.v.stride0),
              .out_offsets = documents.offsets(a.out.stride0),
              .lse_offsets = documents.offsets(a.lse.shape[1])},
             workspace.data());
  fill_outside(a.out, documents, 0.0F);
  fill_outside(a.lse, documents, -std::numeric_limits<float>::infinity());
  ++calls_.forward;
  return true;
}

bool Attention::merge(const AttentionForward& attention, Rectangles& rectangles) {
  const AttentionForward& a = attention;
  if (a.softcap != 0.0F || a.out.dtype != DType::float32 || !has_float32_results(version().number)) return false;
  if (!are_readable(a.q, a.k, a.v)) return false;
  const std::int64_t heads = a.q.shape[1], dim = a.q.shape[2];
  const std::int64_t rows = std::min(a.q.shape[0], rectangle_rows);
  const GraphShape shape{.documents = 1,
                         .longest = rounded_longest(rows),
                         .q_heads = heads,
                         .kv_heads = a.k.shape[1],
                         .head_dim = dim,
                         .scale = a.scale,
                         .q_row = a.q.stride0,
                         .k_row = a.k.stride0,
                         .v_row = a.v.stride0,
                         .out_row = heads * dim,
                         .longest_keys = rounded_longest(a.k.shape[0]),
                         .float32_out = true};
  const Graph* graph = graph_of(shape);
  if (graph == nullptr) return false;
  const std::size_t sums_bytes = padded(rectangle_sums_bytes(rows, heads, dim));
  const Loan memory(pool_, sums_bytes + graph->workspace_bytes());
  if (memory.data() == nullptr) {
    say_short_of(sums_bytes + graph->workspace_bytes());
    return false;
  }
  auto* const sums = reinterpret_cast<float*>(memory.data());
  float* const sums_lse = sums + rows * heads * dim;
  for (const Rectangle& rectangle : rectangles.list()) {
    const ConstTensor k = a.k.rows(rectangle.k_begin, rectangle.k_len);
    const ConstTensor v = a.v.rows(rectangle.k_begin, rectangle.k_len);
    for (std::int64_t begin = 0; begin < rectangle.q_len; begin += rows) {
      const std::int64_t count = std::min(rows, rectangle.q_len - begin);
      const std::int64_t first = rectangle.q_begin + begin;
      graph->run({.q = a.q.rows(first, count).data,
                  .k = k.data,
                  .v = v.data,
                  .out = sums,
                  .lse = sums_lse,
                  .lengths = rectangles.length(count),
                  .key_lengths = rectangles.length(rectangle.k_len),
                  .q_offsets = rectangles.offsets(count * a.q.stride0),
                  .k_offsets = rectangles.offsets(rectangle.k_len * k.stride0),
                  .v_offsets = rectangles.offsets(rectangle.k_len * v.stride0),
                  .out_offsets = rectangles.offsets(count * heads * dim),
                  .lse_offsets = rectangles.offsets(count * heads)},
                 memory.data() + sums_bytes);
      const Tensor out = a.out.rows(first, count);
      attention_merge({out.data, out.stride0, /*is_bf16=*/false, is_aligned(out)}, floats_of(a.lse.rows(first, count)),
                      sums, sums_lse, count, static_cast<int>(heads), static_cast<int>(dim), stream_);
    }
  }
  ++calls_.forward;
  return true;
}

bool Attention::backward(const AttentionBackward& attention, Documents& documents) {
  const AttentionBackward& a = attention;
  if (a.out.empty() || a.accumulate_dq || a.accumulate_dkv || a.softcap != 0.0F) return false;
  if (!are_readable(a.q, a.k, a.v, a.out, a.dout, a.dq, a.dk, a.dv)) return false;
  // Working memory grows with the rows of dk and dv: contiguous ones take a quarter of what those of a fused product
  // do.
  const bool writes_keys = a.dk.is_contiguous() && a.dv.is_contiguous();
  const std::int64_t keys_row = a.dk.shape[1] * a.dk.shape[2];
  GraphShape shape = shape_of(a, documents, a.out.stride0);
  shape.dout_row = a.dout.stride0;
  shape.dq_row = a.dq.stride0;
  shape.dk_row = shape.dv_row = keys_row;
  shape.tokens = rounded_tokens(documents.num_rows());
  if (!repeats_backward(version().number)) return false;
  const Graph* graph = graph_of(shape);
  if (graph == nullptr) return false;
  const std::size_t keys_bytes =
      writes_keys ? 0 : padded(static_cast<std::size_t>(a.dk.shape[0] * keys_row) * size_of(DType::bf16));
  const std::size_t bytes = std::max<std::size_t>(2 * keys_bytes + graph->workspace_bytes(), 1);
  const Loan memory(pool_, bytes);
  if (memory.data() == nullptr) {
    say_short_of(bytes);
    return false;
  }
  const Tensor dk = writes_keys ? a.dk : contiguous_like(a.dk, memory.data());
  const Tensor dv = writes_keys ? a.dv : contiguous_like(a.dv, memory.data() + keys_bytes);
  graph->run({.q = a.q.data,
              .k = a.k.data,
              .v = a.v.data,
              .out = const_cast<void*>(a.out.data),
              .lse = const_cast<float*>(floats_of(a.lse)),
              .lengths = documents.lengths(),
              .key_lengths = documents.lengths(),
              .q_offsets = documents.offsets(a.q.stride0),
              .k_offsets = documents.offsets(a.k.stride0),
              .v_offsets = documents.offsets(a.v.stride0),
              .out_offsets = documents.offsets(a.out.stride0),
              .lse_offsets = documents.offsets(a.lse.shape[1]),
              .dout = a.dout.data,
              .dq = a.dq.data,
              .dk = dk.data,
              .dv = dv.data,
              .dout_offsets = documents.offsets(a.dout.stride0),
              .dq_offsets = documents.offsets(a.dq.stride0),
              .dk_offsets = documents.offsets(keys_row),
              .dv_offsets = documents.offsets(keys_row)},
             memory.data() + 2 * keys_bytes);
  fill_outside(a.dq, documents, 0.0F);
  fill_outside(dk, documents, 0.0F);
  fill_outside(dv, documents, 0.0F);
  ++calls_.backward;
  if (writes_keys) return true;
  copy(view_of(a.dk), view_of(ConstTensor(dk)), stream_);
  copy(view_of(a.dv), view_of(ConstTensor(dv)), stream_);
  return true;
}

}  // namespace sft::ops::cuda::cudnn
