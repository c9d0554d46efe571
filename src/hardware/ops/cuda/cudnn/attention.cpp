// SPDX-License-Identifier: Apache-2.0
#include "ops/cuda/cudnn/attention.hpp"

#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <limits>
#include <utility>

#include "ops/cuda/attention_calls.hpp"
#include "ops/cuda/cudnn/store.hpp"
#include "ops/cuda/cudnn/working_memory.hpp"
#include "ops/cuda/kernels/kernels.hpp"
#include "ops/cuda/kernels/run.hpp"
#include "ops/views/tensor.hpp"
#include "sft/core/gpu_launches.hpp"
#include "sft/core/log.hpp"

namespace sft::ops::cuda::cudnn {

namespace {

/// Heads of rows one behind the other, in bf16.
Tensor contiguous_like(const Tensor& heads, void* data) {
  return {data, DType::bf16, {heads.shape[0], heads.shape[1], heads.shape[2]}};
}

/// What a pass reads of the forward pass, or writes in it.
template <class Pass>
GraphCall call_of(const Pass& a, const Documents::Call& call) {
  const ConstTensor out = a.out, lse = a.lse;
  return {.q = a.q.data,
          .k = a.k.data,
          .v = a.v.data,
          .out = const_cast<void*>(out.data),
          .lse = const_cast<float*>(floats_of(lse)),
          .lengths = call.queries->lengths(),
          .key_lengths = call.keys->lengths(),
          .q_offsets = call.queries->offsets(a.q.stride0),
          .k_offsets = call.keys->offsets(a.k.stride0),
          .v_offsets = call.keys->offsets(a.v.stride0),
          .out_offsets = call.queries->offsets(out.stride0),
          .lse_offsets = call.queries->offsets(lse.shape[1])};
}

/// Without the gradients themselves, whose rows are so many elements apart.
GraphCall backward_call(const AttentionBackward& a, const Documents::Call& documents, std::int64_t dq_row,
                        std::int64_t keys_row) {
  GraphCall call = call_of(a, documents);
  call.dout = a.dout.data;
  call.dout_offsets = documents.queries->offsets(a.dout.stride0);
  call.dq_offsets = documents.queries->offsets(dq_row);
  call.dk_offsets = documents.keys->offsets(keys_row);
  call.dv_offsets = documents.keys->offsets(keys_row);
  return call;
}

/// Of a piece of a rectangle, without the gradients themselves.
GraphCall gradients_call(const AttentionBackward& a, const GraphShape& shape, const RowRange& queries,
                         const RowRange& keys, Rectangles& rectangles) {
  const ConstTensor lse = a.lse.rows(queries.begin, queries.count);
  const auto of_queries = [&](std::int64_t row) { return rectangles.offsets(queries.count * row); };
  const auto of_keys = [&](std::int64_t row) { return rectangles.offsets(keys.count * row); };
  const auto first = [](const ConstTensor& x, const RowRange& range) { return x.rows(range.begin, range.count).data; };
  return {.q = first(a.q, queries),
          .k = first(a.k, keys),
          .v = first(a.v, keys),
          .out = const_cast<void*>(first(a.out, queries)),
          .lse = const_cast<float*>(floats_of(lse)),
          .lengths = rectangles.length(queries.count),
          .key_lengths = rectangles.length(keys.count),
          .q_offsets = of_queries(shape.q_row),
          .k_offsets = of_keys(shape.k_row),
          .v_offsets = of_keys(shape.v_row),
          .out_offsets = of_queries(shape.out_row),
          .lse_offsets = of_queries(shape.q_heads),
          .dout = first(a.dout, queries),
          .dout_offsets = of_queries(shape.dout_row),
          .dq_offsets = of_queries(shape.dq_row),
          .dk_offsets = of_keys(shape.dk_row),
          .dv_offsets = of_keys(shape.dv_row)};
}

void run(const Graph& graph, const GraphCall& call, void* workspace, cudaStream_t stream) {
  note_launch("attention of cuDNN", stream);
  try {
    graph.run(call, workspace);
  } catch (const Refusal&) {
    const cudaError_t earlier = cudaStreamQuery(nullptr);
    throw_if_of_a_kernel(earlier, cudaGetErrorString(earlier));
    throw;
  }
}

}  // namespace

std::byte* Attention::working_place(std::size_t bytes) {
  std::byte* const place = pool_.working_place(bytes);
  if (place != nullptr || has_said_short_) return place;
  has_said_short_ = true;
  log_warning(fmt::format(
      "attention: this program's kernels where cuDNN asks for {} bytes, more than is planned for it", bytes));
  return nullptr;
}

const Graph* Attention::graph_of(const GraphShape& shape) {
  const std::string name = shape.name();
  if (!graphs_.contains(name)) {
    std::vector<GraphShape> shapes = expected_.shapes_like(shape);
    std::erase_if(shapes, [this](const GraphShape& like) { return graphs_.contains(like.name()); });
    add_graphs(shapes);
  }
  return graphs_.at(name).get();
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
  for (const RowRange& rows : documents.outside())
    cuda::run(Fill{x.rows(rows.begin, rows.count), value}, Context{stream_, {}});
}

bool Attention::forward(const AttentionForward& attention, const Documents& documents) {
  const AttentionForward& a = attention;
  const std::optional<GraphShape> shape = forward_shape(a, documents.sizes(), version().number);
  const Graph* graph = shape ? graph_of(*shape) : nullptr;
  if (graph == nullptr) return false;
  std::vector<GraphCall> calls;  // before there is a working place: what is uploaded takes memory of the pool too
  for (const Documents::Call& call : documents.calls()) {
    calls.push_back(call_of(a, call));
  }
  std::byte* const workspace = working_place(graph->workspace_bytes());
  if (workspace == nullptr) return false;
  for (const GraphCall& call : calls) run(*graph, call, workspace, stream_);
  fill_outside(a.out, documents, 0.0F);
  fill_outside(a.lse, documents, -std::numeric_limits<float>::infinity());
  ++calls_.forward;
  return true;
}

bool Attention::merge(const AttentionForward& attention, Rectangles& rectangles) {
  const AttentionForward& a = attention;
  const std::optional<GraphShape> shape = merge_shape(a, version().number);
  const Graph* graph = shape ? graph_of(*shape) : nullptr;
  if (graph == nullptr) return false;
  const std::int64_t heads = a.q.shape[1], dim = a.q.shape[2];
  const std::int64_t rows = std::min(a.q.shape[0], rectangle_rows());
  const std::size_t sums_bytes = padded(rectangle_sums_bytes(rows, heads, dim));
  struct Part {
    RowRange queries;
    GraphCall call;
  };
  std::vector<Part> parts;
  for (const Rectangle& rectangle : rectangles.list()) {
    const ConstTensor k = a.k.rows(rectangle.k_begin, rectangle.k_len);
    const ConstTensor v = a.v.rows(rectangle.k_begin, rectangle.k_len);
    for (std::int64_t begin = 0; begin < rectangle.q_len; begin += rows) {
      const std::int64_t count = std::min(rows, rectangle.q_len - begin);
      const RowRange queries{rectangle.q_begin + begin, count};
      parts.push_back({queries,
                       {.q = a.q.rows(queries.begin, count).data,
                        .k = k.data,
                        .v = v.data,
                        .out = nullptr,
                        .lse = nullptr,
                        .lengths = rectangles.length(count),
                        .key_lengths = rectangles.length(rectangle.k_len),
                        .q_offsets = rectangles.offsets(count * a.q.stride0),
                        .k_offsets = rectangles.offsets(rectangle.k_len * k.stride0),
                        .v_offsets = rectangles.offsets(rectangle.k_len * v.stride0),
                        .out_offsets = rectangles.offsets(count * heads * dim),
                        .lse_offsets = rectangles.offsets(count * heads)}});
    }
  }
  std::byte* const memory = working_place(sums_bytes + graph->workspace_bytes());
  if (memory == nullptr) return false;
  auto* const sums = reinterpret_cast<float*>(memory);
  float* const sums_lse = sums + rows * heads * dim;
  for (Part& part : parts) {
    part.call.out = sums;
    part.call.lse = sums_lse;
    run(*graph, part.call, memory + sums_bytes, stream_);
    const auto [first, count] = part.queries;
    const Tensor out = a.out.rows(first, count);
    attention_merge({out.data, out.stride0, /*is_bf16=*/false, is_aligned(out)}, floats_of(a.lse.rows(first, count)),
                    sums, sums_lse, count, static_cast<int>(heads), static_cast<int>(dim), stream_);
  }
  ++calls_.forward;
  return true;
}

bool Attention::add_gradients(const AttentionBackward& attention, Rectangles& rectangles) {
  const AttentionBackward& a = attention;
  const std::optional<GraphShape> shape = rectangles_backward_shape(a, version().number, in_order_);
  const Graph* graph = shape ? graph_of(*shape) : nullptr;
  if (graph == nullptr) return false;
  const std::int64_t rows = std::min(a.q.shape[0], rectangle_rows());
  const std::size_t dq_bytes = bf16_bytes(rows, shape->dq_row), keys_bytes = bf16_bytes(a.k.shape[0], shape->dk_row);
  struct Part {
    RowRange queries, keys;
    GraphCall call;
  };
  std::vector<Part> parts;
  for (const Rectangle& rectangle : rectangles.list()) {
    const RowRange keys{rectangle.k_begin, rectangle.k_len};
    for (std::int64_t begin = 0; begin < rectangle.q_len; begin += rows) {
      const RowRange queries{rectangle.q_begin + begin, std::min(rows, rectangle.q_len - begin)};
      parts.push_back({queries, keys, gradients_call(a, *shape, queries, keys, rectangles)});
    }
  }
  std::byte* const memory = working_place(dq_bytes + 2 * keys_bytes + graph->workspace_bytes());
  if (memory == nullptr) return false;
  const Tensor dq = contiguous_like(a.dq, memory);
  const Tensor dk = contiguous_like(a.dk, memory + dq_bytes);
  const Tensor dv = contiguous_like(a.dv, memory + dq_bytes + keys_bytes);
  if (!a.accumulate_dkv) {
    cuda::run(Fill{a.dk, 0.0F}, Context{stream_, {}});
    cuda::run(Fill{a.dv, 0.0F}, Context{stream_, {}});
  }
  const auto add_rows = [this](const Tensor& sum, const RowRange& range, const Tensor& part) {
    cuda::run(Add{sum.rows(range.begin, range.count), part.rows(0, range.count)}, Context{stream_, {}});
  };
  for (Part& part : parts) {
    part.call.dq = dq.data;
    part.call.dk = dk.data;
    part.call.dv = dv.data;
    run(*graph, part.call, memory + dq_bytes + 2 * keys_bytes, stream_);
    add_rows(a.dq, part.queries, dq);
    add_rows(a.dk, part.keys, dk);
    add_rows(a.dv, part.keys, dv);
  }
  ++calls_.backward;
  return true;
}

bool Attention::backward(const AttentionBackward& attention, const Documents& documents) {
  const AttentionBackward& a = attention;
  const std::optional<GraphShape> shape = backward_shape(a, documents.sizes(), version().number, in_order_);
  const Graph* graph = shape ? graph_of(*shape) : nullptr;
  if (graph == nullptr) return false;
  // Working memory grows with the rows of gradients: contiguous dk and dv take a quarter of what those of a fused
  // product do, and so does dq beside gathered keys; that of a group of heads has the rows of all groups. What several
  // calls write of dk and dv has to be added up. cuDNN writes bf16, which becomes float32 then.
  const bool are_tails = shape->is_tail;
  const bool writes_keys = a.dk.dtype == DType::bf16 && a.dk.is_contiguous() && a.dv.is_contiguous();
  const bool writes_queries = !are_tails && a.dq.dtype == DType::bf16 && shape->dq_row == a.dq.stride0;
  const std::size_t dq_bytes = writes_queries ? 0 : bf16_bytes(a.dq.shape[0], shape->dq_row);
  const std::size_t keys_bytes = writes_keys ? 0 : bf16_bytes(a.dk.shape[0], shape->dk_row);
  std::vector<GraphCall> calls;
  for (const Documents::Call& call : documents.calls()) {
    calls.push_back(backward_call(a, call, shape->dq_row, shape->dk_row));
  }
  std::byte* const memory = working_place(dq_bytes + 2 * keys_bytes + graph->workspace_bytes());
  if (memory == nullptr) return false;
  std::byte* const keys = memory + dq_bytes;
  const Tensor dq = writes_queries ? a.dq : contiguous_like(a.dq, memory);
  const Tensor dk = writes_keys ? a.dk : contiguous_like(a.dk, keys);
  const Tensor dv = writes_keys ? a.dv : contiguous_like(a.dv, keys + keys_bytes);
  const std::array key_gradients = {std::pair(a.dk, dk), std::pair(a.dv, dv)};
  if (are_tails && !a.accumulate_dkv) {
    for (const auto& [sum, part] : key_gradients) cuda::run(Fill{sum, 0.0F}, Context{stream_, {}});
  }
  for (std::size_t i = 0; i < calls.size(); ++i) {
    calls[i].dq = dq.data;
    calls[i].dk = dk.data;
    calls[i].dv = dv.data;
    run(*graph, calls[i], keys + 2 * keys_bytes, stream_);
    if (!are_tails) continue;
    const RowRange rows = documents.calls()[i].keys->all();
    for (const auto& [sum, part] : key_gradients) {
      cuda::run(Add{sum.rows(rows.begin, rows.count), part.rows(rows.begin, rows.count)}, Context{stream_, {}});
    }
  }
  fill_outside(dq, documents, 0.0F);
  ++calls_.backward;
  if (!writes_queries) cuda::run(Copy{a.dq, dq}, Context{stream_, {}});
  if (are_tails) return true;
  for (const auto& [result, part] : key_gradients) {
    fill_outside(part, documents, 0.0F);
    if (!writes_keys) cuda::run(Copy{result, part}, Context{stream_, {}});
  }
  return true;
}

}  // namespace sft::ops::cuda::cudnn
