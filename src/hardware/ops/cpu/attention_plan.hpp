// SPDX-License-Identifier: Apache-2.0
#pragma once
// From attention spans to the tiles of the kernels.

#include <cstdint>
#include <vector>

#include "ops/cpu/attention_arguments.hpp"
#include "sft/ops/backend.hpp"

namespace sft::ops::cpu {

/// Neighbouring rows of a tensor.
struct RowRun {
  std::int64_t begin, count;
};

/// Tiles of queries by lane, with the key ranges each sees.
struct TilePlan final : AttentionPlan {
  std::vector<AttentionRange> ranges;
  std::vector<AttentionTile> tiles;
  std::vector<AttentionLane> lanes;
  std::int64_t longest_lane = 0;                ///< most keys from a lane's first to its last
  std::vector<RowRun> idle_queries, idle_keys;  ///< rows outside every span

  /// Throws std::logic_error where a span lies outside the rows or the keys of two lanes interleave.
  TilePlan(const std::vector<sequence::AttentionSpan>& spans, std::int64_t num_queries, std::int64_t num_keys);
};

}  // namespace sft::ops::cpu
