#include "ops/cpu/attention_plan.hpp"

#include <algorithm>
#include <numeric>

namespace sft::ops::cpu {

TilePlan::TilePlan(const std::vector<sequence::AttentionSpan>& spans) {
  std::vector<std::size_t> order(spans.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return spans[a].lane < spans[b].lane; });
  lanes.push_back(0);
  for (std::size_t i = 0; i < order.size();) {
    const sequence::AttentionSpan& first = spans[order[i]];
    const auto range_begin = static_cast<std::int64_t>(ranges.size());
    for (; i < order.size() && spans[order[i]].lane == first.lane && spans[order[i]].q_begin == first.q_begin; ++i) {
      const sequence::AttentionSpan& span = spans[order[i]];
      ranges.push_back({span.q_begin, span.k_begin, span.k_len, span.diagonal});
    }
    const auto range_end = static_cast<std::int64_t>(ranges.size());
    for (std::int64_t begin = 0; begin < first.q_len; begin += attention_tile) {
      tiles.push_back({first.q_begin + begin, std::min(attention_tile, first.q_len - begin), range_begin, range_end});
    }
    const bool lane_ends = i == order.size() || spans[order[i]].lane != first.lane;
    if (lane_ends) lanes.push_back(static_cast<std::int64_t>(tiles.size()));
  }
}

}  // namespace sft::ops::cpu
