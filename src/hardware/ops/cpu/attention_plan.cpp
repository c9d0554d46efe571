// SPDX-License-Identifier: Apache-2.0
#include "ops/cpu/attention_plan.hpp"

#include <algorithm>
#include <numeric>

#include "sft/core/ensure.hpp"

namespace sft::ops::cpu {

namespace {

/// The rows of [0, num_rows) that no run of `used` covers.
std::vector<RowRun> gaps_between(std::vector<RowRun> used, std::int64_t num_rows) {
  std::ranges::sort(used, {}, &RowRun::begin);
  std::vector<RowRun> gaps;
  std::int64_t end = 0;
  for (const RowRun& run : used) {
    SFT_ENSURE(run.begin >= 0, "ops: attention spans lie within the rows");
    SFT_ENSURE(run.begin + run.count <= num_rows, "ops: attention spans lie within the rows");
    if (run.begin > end) gaps.push_back({end, run.begin - end});
    end = std::max(end, run.begin + run.count);
  }
  if (end < num_rows) gaps.push_back({end, num_rows - end});
  return gaps;
}

/// Whether no lane's keys lie in another's range.
bool are_apart(std::vector<AttentionLane> lanes) {
  std::ranges::sort(lanes, {}, &AttentionLane::k_begin);
  return std::ranges::adjacent_find(
             lanes, [](const AttentionLane& a, const AttentionLane& b) { return b.k_begin < a.k_end; }) == lanes.end();
}

}  // namespace

TilePlan::TilePlan(const std::vector<sequence::AttentionSpan>& spans, std::int64_t num_queries, std::int64_t num_keys)
    : AttentionPlan(num_queries, num_keys) {
  std::vector<std::size_t> order(spans.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return spans[a].lane < spans[b].lane; });
  std::vector<RowRun> used_queries, used_keys;
  for (std::size_t i = 0; i < order.size();) {
    const sequence::AttentionSpan& first = spans[order[i]];
    if (i == 0 || spans[order[i - 1]].lane != first.lane) {
      const auto next_tile = static_cast<std::int64_t>(tiles.size());
      lanes.push_back({next_tile, next_tile, first.k_begin, first.k_begin});
    }
    AttentionLane& lane = lanes.back();
    const auto range_begin = static_cast<std::int64_t>(ranges.size());
    for (; i < order.size() && spans[order[i]].lane == first.lane && spans[order[i]].q_begin == first.q_begin; ++i) {
      const sequence::AttentionSpan& span = spans[order[i]];
      const std::int64_t horizon = span.is_windowed() ? span.diagonal - span.window : no_horizon;
      ranges.push_back({span.q_begin, span.k_begin, span.k_len, span.diagonal, horizon});
      used_keys.push_back({span.k_begin, span.k_len});
      lane.k_begin = std::min(lane.k_begin, span.k_begin);
      lane.k_end = std::max(lane.k_end, span.k_begin + span.k_len);
    }
    used_queries.push_back({first.q_begin, first.q_len});
    const auto range_end = static_cast<std::int64_t>(ranges.size());
    for (std::int64_t begin = 0; begin < first.q_len; begin += attention_tile) {
      tiles.push_back({first.q_begin + begin, std::min(attention_tile, first.q_len - begin), range_begin, range_end});
    }
    lane.tile_end = static_cast<std::int64_t>(tiles.size());
    longest_lane = std::max(longest_lane, lane.k_end - lane.k_begin);
  }
  SFT_ENSURE(are_apart(lanes), "ops: the keys of attention lanes do not interleave");
  idle_queries = gaps_between(std::move(used_queries), num_queries);
  idle_keys = gaps_between(std::move(used_keys), num_keys);
}

}  // namespace sft::ops::cpu
