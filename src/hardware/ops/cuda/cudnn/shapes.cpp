// SPDX-License-Identifier: Apache-2.0
#include "ops/cuda/cudnn/shapes.hpp"

#include <algorithm>

#include "ops/cuda/cudnn/working_memory.hpp"
#include "sft/ops/shapes.hpp"

namespace sft::ops::cuda::cudnn {

namespace {

/// Whether cuDNN can read or write these heads: aligned bf16.
bool is_readable(const ConstTensor& heads) { return heads.dtype == DType::bf16 && is_aligned(heads); }

template <class... Heads>
bool are_readable(const Heads&... heads) {
  return (is_readable(heads) && ...);
}

/// Whether cuDNN has a backward pass of what the call reads.
bool has_backward(const AttentionBackward& a, std::size_t version, bool in_order) {
  return !a.out.empty() && a.softcap == 0.0F && (!in_order || repeats_backward(version)) &&
         bounds_backward_of_library(a.q.shape[2]) && are_readable(a.q, a.k, a.v, a.out, a.dout);
}

/// What forward and backward have in common.
template <class Call>
GraphShape shape_of(const Call& call, const DocumentSizes& documents, std::int64_t out_row) {
  return {.documents = documents.documents,
          .longest = documents.longest,
          .q_heads = call.q.shape[1],
          .kv_heads = call.k.shape[1],
          .head_dim = call.q.shape[2],
          .scale = call.scale,
          .q_row = call.q.stride0,
          .k_row = call.k.stride0,
          .v_row = call.v.stride0,
          .out_row = out_row,
          .longest_keys = documents.longest_keys,
          .is_tail = documents.are_tails(),
          .window = documents.window};
}

}  // namespace

bool are_sums(const AttentionBackward& attention) {
  return attention.dq.dtype == DType::float32 && attention.dk.dtype == DType::float32;
}

bool is_aligned(const ConstTensor& heads) {
  const std::int64_t elements = 16 / static_cast<std::int64_t>(size_of(heads.dtype));
  return heads.stride0 % elements == 0 && heads.shape[2] % elements == 0 &&
         reinterpret_cast<std::uintptr_t>(heads.data) % 16 == 0;
}

std::optional<GraphShape> forward_shape(const AttentionForward& attention, const DocumentSizes& documents,
                                        std::size_t version) {
  const AttentionForward& a = attention;
  if (a.merge || a.softcap != 0.0F || !a.sinks.empty() || !are_readable(a.q, a.k, a.v)) return {};
  const bool is_sum = a.out.dtype == DType::float32;
  if (!is_aligned(a.out) || (is_sum && !has_float32_results(version))) return {};
  GraphShape shape = shape_of(a, documents, a.out.stride0);
  shape.float32_out = is_sum;
  return shape;
}

std::optional<GraphShape> merge_shape(const AttentionForward& attention, std::size_t version) {
  const AttentionForward& a = attention;
  if (a.softcap != 0.0F || a.out.dtype != DType::float32 || !has_float32_results(version)) return {};
  if (!are_readable(a.q, a.k, a.v)) return {};
  const std::int64_t heads = a.q.shape[1], dim = a.q.shape[2];
  return GraphShape{.documents = 1,
                    .longest = rounded_longest(std::min(a.q.shape[0], rectangle_rows())),
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
}

std::optional<GraphShape> backward_shape(const AttentionBackward& attention, const DocumentSizes& documents,
                                         std::size_t version, bool in_order) {
  const AttentionBackward& a = attention;
  if (a.accumulate_dq || !has_backward(a, version, in_order)) return {};
  const bool are_tails = documents.are_tails(), are_sums = a.dq.dtype == DType::float32;
  if (!are_sums && !is_readable(a.dq)) return {};
  if (!are_tails && a.accumulate_dkv) return {};
  if (a.dk.dtype != DType::float32 && (are_tails || !are_readable(a.dk, a.dv))) return {};
  GraphShape shape = shape_of(a, documents, a.out.stride0);
  shape.dout_row = a.dout.stride0;
  shape.dq_row = are_tails || are_sums ? a.dq.shape[1] * a.dq.shape[2]
                                       : written_dq_row(a.dq.stride0, shape.q_heads, shape.kv_heads, shape.head_dim);
  shape.dk_row = shape.dv_row = a.dk.shape[1] * a.dk.shape[2];
  shape.tokens = documents.tokens;
  shape.key_tokens = documents.key_tokens;
  shape.in_order = in_order;
  return shape;
}

std::optional<GraphShape> rectangles_backward_shape(const AttentionBackward& attention, std::size_t version,
                                                    bool in_order) {
  const AttentionBackward& a = attention;
  if (!a.accumulate_dq || a.dk.dtype != DType::float32 || !has_backward(a, version, in_order)) return {};
  const std::int64_t heads = a.q.shape[1], kv_heads = a.k.shape[1], dim = a.q.shape[2];
  const std::int64_t rows = std::min(a.q.shape[0], rectangle_rows());
  return GraphShape{.documents = 1,
                    .longest = rounded_longest(rows),
                    .q_heads = heads,
                    .kv_heads = kv_heads,
                    .head_dim = dim,
                    .scale = a.scale,
                    .q_row = a.q.stride0,
                    .k_row = a.k.stride0,
                    .v_row = a.v.stride0,
                    .out_row = a.out.stride0,
                    .longest_keys = rounded_longest(a.k.shape[0]),
                    .dout_row = a.dout.stride0,
                    .dq_row = heads * dim,
                    .dk_row = kv_heads * dim,
                    .dv_row = kv_heads * dim,
                    .tokens = rounded_tokens(rows),
                    .key_tokens = rounded_tokens(a.k.shape[0]),
                    .in_order = in_order};
}

void ExpectedDocuments::add(const DocumentSizes& sizes) {
  if (std::ranges::find(sizes_, sizes) == sizes_.end()) sizes_.push_back(sizes);
}

std::vector<GraphShape> ExpectedDocuments::shapes_like(const GraphShape& shape) const {
  std::vector<GraphShape> shapes = {shape};
  if (shape.is_rectangle()) return shapes;  // one for all of its tensors
  for (const DocumentSizes& sizes : sizes_) {
    if (sizes.are_tails() != shape.is_tail) continue;
    GraphShape like = shape;
    like.documents = sizes.documents;
    like.longest = sizes.longest;
    like.longest_keys = sizes.longest_keys;
    like.window = sizes.window;
    if (shape.is_backward()) {
      like.tokens = sizes.tokens;
      like.key_tokens = sizes.key_tokens;
    }
    if (std::ranges::find(shapes, like) == shapes.end()) shapes.push_back(like);
  }
  return shapes;
}

}  // namespace sft::ops::cuda::cudnn
