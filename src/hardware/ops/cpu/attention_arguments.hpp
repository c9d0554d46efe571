// SPDX-License-Identifier: Apache-2.0
#pragma once
// Arguments of the CPU backend's attention, from a call and its plan; legend as in sft/ops/call.hpp.

#include <cstdint>

#include "ops/cpu/scratch.hpp"
#include "ops/views/tensor.hpp"
#include "sft/ops/calls/rope.hpp"

namespace sft::ops::cpu {

/// A sequence::AttentionSpan, for kernels: query row q_begin + i sees key row k_begin + j iff i + horizon < j <= i +
/// diagonal. Without a window horizon is no_horizon.
struct AttentionRange {
  std::int64_t q_begin, k_begin, k_len, diagonal, horizon;
};
/// Lies below every key, also when rows are added to it or taken from it.
inline constexpr std::int64_t no_horizon = -(std::int64_t{1} << 62);

/// Queries [q_begin, q_begin + q_len), q_len <= attention_tile, and the key ranges [range_begin, range_end) they see.
struct AttentionTile {
  std::int64_t q_begin, q_len, range_begin, range_end;
};

/// Tiles [tile_begin, tile_end), whose keys lie in [k_begin, k_end). Lanes share no query, and no key of one lies in
/// the range of another.
struct AttentionLane {
  std::int64_t tile_begin, tile_end, k_begin, k_end;
};

/// Scratch rows of dk and dv, side by side: `rows_of_thread` for each thread, or one for each key/value head and key.
struct KeySumScratch {
  float* data;
  bool is_per_thread;
  std::int64_t rows_of_thread;
};

struct AttentionArguments {
  ConstView q, k, v;  ///< (T, H D), (Tk, K D), (Tk, K D)
  float scale;
  std::int64_t num_heads, num_kv_heads, head_dim;
  const AttentionRange* ranges;
  const AttentionTile* tiles;
  const AttentionLane* lanes;
  std::int64_t num_tiles, num_lanes;
  float softcap;  ///< of the scores; 0: none

  // Forward.
  float* lse;       ///< (T, H)
  View out;         ///< (T, H D)
  bool merges;      ///< with what out, float32 then, and lse hold
  ConstView sinks;  ///< (H); without data: none

  // Backward.
  ConstView dout;                ///< (T, H D)
  const float* final_lse;        ///< (T, H)
  const float* delta;            ///< (T, H)
  View dq, dk, dv;               ///< (T, H D), (Tk, K D), (Tk, K D)
  bool adds_to_dq, adds_to_dkv;  ///< to what they, float32 then, hold
  KeySumScratch key_sums;        ///< when dk and dv are bf16
};

/// Queries and keys of one block product of the attention.
inline constexpr std::int64_t attention_tile = 64;
/// Scratch of one thread of the attention at most: ten tiles of operands and three of scores.
inline constexpr std::int64_t attention_scratch_floats = attention_tile * (10 * max_head_dim + 3 * attention_tile);

}  // namespace sft::ops::cpu
