// SPDX-License-Identifier: Apache-2.0
#pragma once
// Entries of the lists of attention plans. Plain C++17, for host code, also of builds without CUDA, and for nvcc.

#include <cstdint>

namespace sft::ops::cuda {

/// Rows that a tile of an attention plan has at most. Kernels with smaller tiles take them in parts.
inline constexpr int attention_tile_rows = 128;

/// Rows [begin, begin + count) of the queries, with ranges of keys that they see; or of the keys, with ranges of
/// queries that see them. A tile without ranges holds rows outside every span.
struct alignas(16) AttentionTile {
  std::int32_t begin, count, range_begin, range_end;
};

/// Rows [other_begin, other_begin + other_count) of the other side, for tiles of the span that begins at row own_begin
/// of the own side. Of queries and keys counted from these rows, query i sees key j iff j <= i + diagonal and, where
/// the side has a window, j > i + diagonal - window. Where every query sees every key, and there is no window, diagonal
/// is no_border.
struct alignas(16) AttentionRange {
  std::int32_t own_begin, other_begin, other_count, diagonal;
};
inline constexpr std::int32_t no_border = std::int32_t{1} << 30;

}  // namespace sft::ops::cuda
