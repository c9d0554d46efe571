// SPDX-License-Identifier: Apache-2.0
#include "ops/cuda/attention_plan.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <span>

#include "ops/cuda/kernels/kernels.hpp"
#include "sft/core/ensure.hpp"

namespace sft::ops::cuda {

namespace {

/// A span as one of its sides sees it.
struct SideSpan {
  std::int64_t own_begin, own_count, other_begin, other_count;
  std::int64_t diagonal;  ///< as in AttentionRange
};

struct TileWork {
  AttentionTile tile;
  std::int64_t pairs_per_row;  ///< rows of the other side that it meets, about
};

enum class Side { queries, keys };

/// Tiles over all of `num_rows` rows of a side, those with most work first, and the ranges they meet.
class SideLists {
 public:
  SideLists(Side side, std::vector<SideSpan> spans, std::int64_t num_rows, std::int64_t window)
      : side_(side), window_(window) {
    std::ranges::stable_sort(spans, {}, &SideSpan::own_begin);
    std::int64_t row = 0;
    for (std::size_t i = 0; i < spans.size();) {
      const SideSpan& first = spans[i];
      SFT_ENSURE(first.own_begin >= row && first.own_begin + first.own_count <= num_rows,
                 "ops: attention spans lie within the rows, and different ranges of rows do not overlap");
      add_tiles(row, first.own_begin, {});
      std::size_t end = i;
      for (; end < spans.size() && spans[end].own_begin == first.own_begin; ++end) {
        SFT_ENSURE(spans[end].own_count == first.own_count,
                   "ops: attention spans share all of a range of rows, or none");
      }
      row = first.own_begin + first.own_count;
      add_tiles(first.own_begin, row, std::span(spans).subspan(i, end - i));
      i = end;
    }
    add_tiles(row, num_rows, {});
    std::ranges::stable_sort(work_, std::greater{}, &TileWork::pairs_per_row);
  }

  [[nodiscard]] std::vector<AttentionTile> tiles() const {
    std::vector<AttentionTile> tiles;
    tiles.reserve(work_.size());
    for (const TileWork& work : work_) tiles.push_back(work.tile);
    return tiles;
  }
  [[nodiscard]] std::vector<AttentionRange> take_ranges() { return std::move(ranges_); }

 private:
  /// Tiles of the rows [begin, end), which `spans` have in common.
  void add_tiles(std::int64_t begin, std::int64_t end, std::span<const SideSpan> spans) {
    const auto range_begin = static_cast<std::int32_t>(ranges_.size());
    for (const SideSpan& span : spans) {
      ranges_.push_back({static_cast<std::int32_t>(span.own_begin), static_cast<std::int32_t>(span.other_begin),
                         static_cast<std::int32_t>(span.other_count), static_cast<std::int32_t>(span.diagonal)});
    }
    const auto range_end = static_cast<std::int32_t>(ranges_.size());
    for (std::int64_t row = begin; row < end; row += attention_tile_rows) {
      const std::int64_t count = std::min<std::int64_t>(attention_tile_rows, end - row);
      TileWork work{{static_cast<std::int32_t>(row), static_cast<std::int32_t>(count), range_begin, range_end}, 0};
      for (const SideSpan& span : spans) work.pairs_per_row += others_met(span, row - begin, count);
      work_.push_back(work);
    }
  }

  /// Rows of the other side that some row of the tile at `offset` of the span meets.
  [[nodiscard]] std::int64_t others_met(const SideSpan& span, std::int64_t offset, std::int64_t count) const {
    const bool is_of_queries = side_ == Side::queries;
    const std::int64_t diagonal = is_of_queries ? offset + span.diagonal : offset - span.diagonal;
    std::int64_t first = is_of_queries ? 0 : diagonal, end = is_of_queries ? diagonal + count : span.other_count;
    if (window_ > 0 && is_of_queries) first = diagonal - window_ + 1;
    if (window_ > 0 && !is_of_queries) end = diagonal + count - 1 + window_;
    return std::max<std::int64_t>(0, std::min(end, span.other_count) - std::max<std::int64_t>(first, 0));
  }

  Side side_;
  std::int64_t window_;
  std::vector<TileWork> work_;
  std::vector<AttentionRange> ranges_;
};

std::int64_t whole_tiles(std::int64_t num_rows) { return (num_rows + attention_tile_rows - 1) / attention_tile_rows; }

}  // namespace

void* PlanPool::take(std::size_t bytes) {
  if (bytes == 0) return nullptr;
  std::size_t begin = 0;
  for (const auto& [used_begin, used_end] : used_) {
    if (used_begin - begin >= bytes) break;
    begin = used_end;
  }
  const std::size_t end = begin + padded(bytes);
  SFT_ENSURE(end <= capacity_bytes_, "ops: the workspace has room for the attention plans of a micro-batch");
  if (end > capacity_bytes_ - working_bytes_) {
    working_bytes_ = 0;
    has_working_place_ = false;
  }
  used_.emplace(begin, end);
  return memory_ + begin;
}

void PlanPool::give_back(void* place) noexcept {
  if (place != nullptr) used_.erase(static_cast<std::byte*>(place) - memory_);
}

std::byte* PlanPool::working_place(std::size_t bytes) {
  const std::size_t whole = capacity_bytes_ / granularity_bytes * granularity_bytes;
  if (!has_working_place_ || padded(bytes) > whole) return nullptr;
  const std::size_t begin = whole - padded(bytes);
  if (begin < end_of_plans()) return nullptr;
  working_bytes_ = std::max(working_bytes_, capacity_bytes_ - begin);
  return memory_ + begin;
}

TileLists::TileLists(const std::vector<sequence::AttentionSpan>& spans, std::int64_t num_queries,
                     std::int64_t num_keys) {
  constexpr std::int64_t max_rows = std::numeric_limits<std::int32_t>::max() - attention_tile_rows;
  SFT_ENSURE(num_queries <= max_rows && num_keys <= max_rows,
             "ops: the rows of an attention plan are counted in 31 bits");
  if (std::ranges::any_of(spans, &sequence::AttentionSpan::is_windowed)) {
    SFT_ENSURE(std::ranges::all_of(spans, [&](const auto& s) { return s.window == spans.front().window; }),
               "ops: attention spans of one plan have one window");
    SFT_ENSURE(spans.front().window < no_border, "ops: the window of an attention plan is counted in 30 bits");
    window = static_cast<std::int32_t>(spans.front().window);
  }
  std::vector<SideSpan> of_queries, of_keys;
  for (const sequence::AttentionSpan& span : spans) {
    if (span.q_len <= 0 || span.k_len <= 0) continue;
    const bool is_full = span.diagonal >= span.k_len - 1;
    SFT_ENSURE(is_full || (span.diagonal == 0 && span.q_len == span.k_len),
               "ops: attention spans on a GPU are causal squares or full rectangles");
    SFT_ENSURE(window == 0 || span.diagonal + span.q_len <= max_rows,
               "ops: places in a document of an attention plan are counted in 31 bits");
    const std::int64_t diagonal = is_full && window == 0 ? no_border : span.diagonal;
    of_queries.push_back({span.q_begin, span.q_len, span.k_begin, span.k_len, diagonal});
    of_keys.push_back({span.k_begin, span.k_len, span.q_begin, span.q_len, diagonal});
  }
  SideLists queries(Side::queries, std::move(of_queries), num_queries, window);
  SideLists keys(Side::keys, std::move(of_keys), num_keys, window);
  query_tiles = queries.tiles();
  key_ranges = queries.take_ranges();
  key_tiles = keys.tiles();
  query_ranges = keys.take_ranges();
}

std::size_t rounded_entries(std::size_t num_entries, std::int64_t num_whole, std::int64_t num_rows) {
  const auto entries = static_cast<std::int64_t>(num_entries);
  const auto parts = static_cast<std::uint64_t>(std::max(entries - num_whole, least_parts));
  const std::int64_t rounded = std::min(num_whole + static_cast<std::int64_t>(std::bit_ceil(parts)), num_rows);
  return static_cast<std::size_t>(std::max(entries, rounded));
}

TilePlan::TilePlan(PlanPool& pool, const std::vector<sequence::AttentionSpan>& spans, std::int64_t num_queries,
                   std::int64_t num_keys, PlanRoom room, cudaStream_t stream)
    : AttentionPlan(num_queries, num_keys), pool_(pool) {
  TileLists lists(spans, num_queries, num_keys);
  const auto round_up = [](auto& list, std::int64_t num_whole, std::int64_t num_rows) {
    list.resize(rounded_entries(list.size(), num_whole, num_rows));
  };
  if (room == PlanRoom::for_others) {
    round_up(lists.query_tiles, whole_tiles(num_queries), num_queries);
    round_up(lists.key_tiles, whole_tiles(num_keys), num_keys);
    round_up(lists.key_ranges, 0, num_queries);
    round_up(lists.query_ranges, 0, num_queries);
  }
  std::vector<std::byte> bytes;
  const auto append = [&](const auto& list) {
    const std::size_t begin = bytes.size();
    const auto as_bytes = std::as_bytes(std::span(list));
    bytes.insert(bytes.end(), as_bytes.begin(), as_bytes.end());
    return begin;
  };
  const std::size_t query_tiles = append(lists.query_tiles), key_ranges = append(lists.key_ranges);
  const std::size_t key_tiles = append(lists.key_tiles), query_ranges = append(lists.query_ranges);
  memory_ = pool_.take(bytes.size());
  const auto at = [&]<class Entry>(std::size_t offset, const std::vector<Entry>&) {
    return reinterpret_cast<const Entry*>(static_cast<const std::byte*>(memory_) + offset);
  };
  queries_ = {at(query_tiles, lists.query_tiles), at(key_ranges, lists.key_ranges),
              static_cast<std::int32_t>(lists.query_tiles.size()), lists.window};
  keys_ = {at(key_tiles, lists.key_tiles), at(query_ranges, lists.query_ranges),
           static_cast<std::int32_t>(lists.key_tiles.size()), lists.window};
  upload(memory_, bytes.data(), bytes.size(), stream);
}

std::vector<std::uint64_t> TilePlan::launch_words() const {
  if (rectangles_ != nullptr || rest_ != nullptr) return {};
  if (documents_ != nullptr && documents_->sizes().are_tails()) return {};
  const auto number_of = [](const void* place) {
    return static_cast<std::uint64_t>(std::bit_cast<std::uintptr_t>(place));
  };
  std::vector<std::uint64_t> words;
  for (const AttentionSide& side : {queries_, keys_}) {
    words.insert(words.end(), {number_of(side.tiles), number_of(side.ranges),
                               static_cast<std::uint64_t>(side.num_tiles), static_cast<std::uint64_t>(side.window)});
  }
  if (documents_ == nullptr) return words;
  documents_->add_launch_words(words);
  words.push_back(pool_.has_working_place() ? 1 : 0);
  return words;
}

}  // namespace sft::ops::cuda
