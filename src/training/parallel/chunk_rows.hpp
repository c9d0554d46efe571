// SPDX-License-Identifier: Apache-2.0
#pragma once
// The rows of tensors that hold the two chunks of a rank (sequence::RowCut), and views of heads.

#include <array>
#include <vector>

#include "sft/comm/collectives.hpp"
#include "sft/core/axis.hpp"
#include "sft/sequence/row_cut.hpp"
#include "sft/tensor/tensor.hpp"

namespace sft::parallel {

using ChunkRows = std::array<Tensor, 2>;  ///< the front chunk, the back chunk

/// The chunks of `rank` in a tensor that holds the whole row of `cut`, one token a row.
[[nodiscard]] inline ChunkRows chunks_in_row(const Tensor& row, const sequence::RowCut& cut, int rank) {
  const std::vector<sequence::Chunk> chunks = cut.chunks(rank);
  return {row.rows(chunks.front().global, chunks.front().length), row.rows(chunks.back().global, chunks.back().length)};
}

/// The chunks of `rank` in a tensor that holds what it has of the row of `cut`.
[[nodiscard]] inline ChunkRows chunks_in_part(const Tensor& part, const sequence::RowCut& cut, int rank) {
  const std::vector<sequence::Chunk> chunks = cut.chunks(rank);
  return {part.rows(chunks.front().local, chunks.front().length), part.rows(chunks.back().local, chunks.back().length)};
}

/// Heads [begin, begin + count) of a tensor (T, heads, D), as (T, count, D).
[[nodiscard]] inline Tensor head_range(const Tensor& x, std::int64_t begin, std::int64_t count) {
  const std::int64_t head_dim = x.shape[2];
  return x.view({x.shape[0], x.shape[1] * head_dim})
      .columns(begin * head_dim, count * head_dim)
      .view({x.shape[0], count, head_dim});
}

/// Those of sinks (heads); none of none.
[[nodiscard]] inline Tensor sink_range(const Tensor& sinks, std::int64_t begin, std::int64_t count) {
  return sinks.empty() ? Tensor() : sinks.rows(begin, count);
}

/// A tensor at the beginning of `memory`.
[[nodiscard]] inline Tensor at_begin_of(const Tensor& memory, std::initializer_list<std::int64_t> shape) {
  std::int64_t num_elements = 1;
  for (const std::int64_t size : shape) num_elements *= size;
  return memory.view({memory.num_elements()}).rows(0, num_elements).view(shape);
}

/// Messages over sp.
inline void add_messages(std::vector<comm::Message>& messages, const ChunkRows& chunks, SpRank rank) {
  for (const Tensor& chunk : chunks) messages.push_back({chunk, rank});
}

}  // namespace sft::parallel
