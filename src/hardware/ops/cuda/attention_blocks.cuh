// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the attention kernels share: which blocks of the score matrix a tile meets, and masks.

#include <cuda_bf16.h>

#include <type_traits>

#include "ops/cuda/attention_calls.hpp"
#include "ops/cuda/launch.cuh"

namespace sft::ops::cuda {

constexpr float minus_infinity = -__builtin_inff();
constexpr float log_of_2 = 0.693147180559945309f;

/// A log-sum-exp in units of ln 2; such that queries without any key get probabilities of 0.
__device__ __forceinline__ float scaled_lse(float lse) {
  return lse == minus_infinity ? -minus_infinity : lse * log2_of_e;
}

/// Calls run(std::bool_constant<has a window>, std::bool_constant<has a softcap>): kernels are compiled for each.
template <class Call, class F>
void with_variant(const Call& call, F run) {
  const bool is_capped = call.softcap > 0.0f;
  if (call.queries.window > 0) {
    return is_capped ? run(std::true_type{}, std::true_type{}) : run(std::true_type{}, std::false_type{});
  }
  is_capped ? run(std::false_type{}, std::true_type{}) : run(std::false_type{}, std::false_type{});
}

/// A part of a tile that one block of threads works on, and its head.
struct WorkItem {
  int begin, count;  ///< own rows
  int range_begin, range_end;
  int head;
};

/// Item number `item` of the grid: heads whose keys and values fit in the L2 cache together come first, of those the
/// tiles with most work first, each with all these heads. Tiles have up to kRows rows here; count <= 0 where a tile has
/// no such part.
template <int kRows>
__device__ __forceinline__ WorkItem work_item(std::int64_t item, const AttentionSide& side, int num_heads,
                                              int heads_at_once) {
  static_assert(attention_tile_rows % kRows == 0, "tiles of a plan divide into those of a kernel");
  constexpr int parts = attention_tile_rows / kRows;
  const std::int64_t num_parts = static_cast<std::int64_t>(side.num_tiles) * parts;
  const std::int64_t items_of_section = num_parts * heads_at_once;
  const int first_head = static_cast<int>(item / items_of_section) * heads_at_once;
  const int heads = min(heads_at_once, num_heads - first_head);
  const std::int64_t rest = item % items_of_section;
  const std::int64_t part = rest / heads;
  const AttentionTile tile = side.tiles[part / parts];
  const int offset = static_cast<int>(part % parts) * kRows;
  return {tile.begin + offset, min(kRows, tile.count - offset), tile.range_begin, tile.range_end,
          first_head + static_cast<int>(rest % heads)};
}

/// The sink of the item's head; -infinity where there is none, or where its queries lie outside every span.
__device__ __forceinline__ float sink_of(const Weight& sinks, const WorkItem& item) {
  if (sinks.data == nullptr || item.range_begin == item.range_end) return minus_infinity;
  return sinks.is_bf16 ? __bfloat162float(static_cast<const __nv_bfloat16*>(sinks.data)[item.head])
                       : static_cast<const float*>(sinks.data)[item.head];
}

/// A block of the other side, of up to kOther rows.
struct OtherBlock {
  int begin, count;
  /// Row i of the item meets row j of the block iff i + diagonal >= j (queries) or <= j (keys) and, with a window, i +
  /// diagonal - window < j (queries) or > j - window (keys).
  int diagonal;
};

/// Goes over the blocks of other rows that an item meets, in order. kOwnIsQueries: others are keys, which queries see
/// up to the diagonal; else others are queries, which see the item's keys from there on. Without kWindowed, ranges are
/// causal squares or have no border.
template <bool kOwnIsQueries, int kOther, bool kWindowed>
class BlockWalk {
 public:
  __device__ __forceinline__ BlockWalk(const AttentionSide& side, const WorkItem& item)
      : ranges_(side.ranges),
        window_(side.window),
        range_begin_(item.range_begin),
        range_end_(item.range_end),
        own_begin_(item.begin),
        own_count_(item.count) {
    restart();
  }

  __device__ __forceinline__ void restart() {
    range_ = range_begin_;
    enter();
  }

  [[nodiscard]] __device__ __forceinline__ bool is_done() const { return range_ >= range_end_; }

  __device__ __forceinline__ void advance() {
    next_ += kOther;
    left_ -= kOther;
    diagonal_ -= kOther;
    if (left_ > 0) return;
    ++range_;
    enter();
  }

  [[nodiscard]] __device__ __forceinline__ OtherBlock block() const { return {next_, min(kOther, left_), diagonal_}; }

 private:
  __device__ __forceinline__ void enter() {
    if (kWindowed) {
      while (!is_done() && !reaches(ranges_[range_])) ++range_;
      return;
    }
    if (is_done()) return;
    const AttentionRange range = ranges_[range_];
    const int offset = own_begin_ - range.own_begin;  // of the item in the span
    next_ = range.other_begin;
    left_ = range.other_count;
    if (range.diagonal != 0) {
      diagonal_ = kOwnIsQueries ? left_ : -attention_tile_rows;
    } else if (kOwnIsQueries) {
      diagonal_ = offset;
      left_ = min(left_, offset + own_count_);
    } else {
      diagonal_ = 0;
      next_ += offset;
      left_ -= offset;
    }
  }

  /// With a window: begins with the first other row of the range that a row of the item meets, to end with the last.
  /// False where there is none.
  __device__ __forceinline__ bool reaches(const AttentionRange& range) {
    const int offset = own_begin_ - range.own_begin;
    diagonal_ = kOwnIsQueries ? offset + range.diagonal : offset - range.diagonal;
    const int first = max(0, kOwnIsQueries ? diagonal_ - window_ + 1 : diagonal_);
    const int end = min(range.other_count, diagonal_ + own_count_ + (kOwnIsQueries ? 0 : window_ - 1));
    next_ = range.other_begin + first;
    left_ = end - first;
    diagonal_ -= first;
    return left_ > 0;
  }

  const AttentionRange* ranges_;
  int window_;
  int range_begin_, range_end_, own_begin_, own_count_;
  int range_ = 0;
  int next_ = 0, left_ = 0;  ///< other rows of the range that are to come
  int diagonal_ = 0;
};

/// The same for other heads [head, head_end), one after the other.
template <bool kOwnIsQueries, int kOther, bool kWindowed>
class GroupWalk {
 public:
  __device__ __forceinline__ GroupWalk(const AttentionSide& side, const WorkItem& item, int head, int head_end)
      : walk_(side, item), head_(head), head_end_(head_end) {}
  [[nodiscard]] __device__ __forceinline__ bool is_done() const { return walk_.is_done(); }
  __device__ __forceinline__ void advance() {
    walk_.advance();
    if (walk_.is_done() && head_ + 1 < head_end_) {
      ++head_;
      walk_.restart();
    }
  }
  [[nodiscard]] __device__ __forceinline__ OtherBlock block() const { return walk_.block(); }
  [[nodiscard]] __device__ __forceinline__ int head() const { return head_; }

 private:
  BlockWalk<kOwnIsQueries, kOther, kWindowed> walk_;
  int head_, head_end_;
};

/// Whether row `own` of an item meets row `other` of the block.
template <bool kOwnIsQueries, bool kWindowed>
__device__ __forceinline__ bool meets(const OtherBlock& block, int window, int own, int other) {
  if (other >= block.count) return false;
  if (kWindowed && (kOwnIsQueries ? own + block.diagonal - window >= other : own + block.diagonal <= other - window)) {
    return false;
  }
  return kOwnIsQueries ? own + block.diagonal >= other : own + block.diagonal <= other;
}

/// Whether some row below `num_own` does not meet some row below `num_other` of the block.
template <bool kOwnIsQueries, bool kWindowed>
__device__ __forceinline__ bool needs_mask(const OtherBlock& block, int window, int num_own, int num_other) {
  if (block.count < num_other) return true;
  if (kWindowed &&
      (kOwnIsQueries ? num_own - 1 + block.diagonal - window >= 0 : block.diagonal <= num_other - 1 - window)) {
    return true;
  }
  return kOwnIsQueries ? block.diagonal < num_other - 1 : num_own - 1 + block.diagonal > 0;
}

/// Whether a warp's rows [own, own + num_own) of an item may meet some row of the block: nothing is lost where not.
template <bool kOwnIsQueries, bool kWindowed>
__device__ __forceinline__ bool may_meet(const OtherBlock& block, int window, int own, int num_own) {
  if (kWindowed && (kOwnIsQueries ? own + block.diagonal - window >= block.count - 1
                                  : own + num_own - 1 + block.diagonal <= -window)) {
    return false;
  }
  return kOwnIsQueries ? own + num_own - 1 + block.diagonal >= 0 : own + block.diagonal < block.count;
}

}  // namespace sft::ops::cuda
