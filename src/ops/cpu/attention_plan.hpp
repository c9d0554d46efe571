#pragma once
// From attention spans to the tiles of the kernels.

#include <cstdint>
#include <vector>

#include "ops/cpu/kernels.hpp"
#include "sft/ops/backend.hpp"

namespace sft::ops::cpu {

/// Tiles of queries by lane, with the key ranges each sees.
struct TilePlan final : AttentionPlan {
  std::vector<AttentionRange> ranges;
  std::vector<AttentionTile> tiles;
  std::vector<std::int64_t> lanes;  ///< lane l owns tiles [lanes[l], lanes[l + 1])

  explicit TilePlan(const std::vector<sequence::AttentionSpan>& spans);
};

}  // namespace sft::ops::cpu
