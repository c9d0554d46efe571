// SPDX-License-Identifier: Apache-2.0
#include "sft/parallel/shard_map.hpp"

#include <algorithm>
#include <span>
#include <utility>

#include "sft/core/cast.hpp"
#include "sft/core/ensure.hpp"

namespace sft::parallel {

namespace {

/// Cuts the logical tensor for this tp rank. `is_first`: of those that hold the same shards.
void slice(Parameter& p, const mesh::Place& place, bool is_first) {
  const int tp_size = place.size(Axis::tp);
  const TpRank tp_rank = place.tp_rank();
  p.is_owner = is_first;
  p.local_rows = p.rows;
  p.local_columns = p.is_vector() ? 1 : p.columns;
  switch (p.split) {
    case TpSplit::none:
    case TpSplit::partial:
      p.is_owner = p.is_owner && tp_rank == 0;
      break;
    case TpSplit::rows:
      SFT_ENSURE(p.rows % tp_size == 0, "rows divide over tp");
      p.local_rows = p.rows / tp_size;
      p.row_begin = tp_rank * p.local_rows;
      break;
    case TpSplit::vocab_rows: {
      const VocabSplit split = split_vocab(p.rows, tp_size, tp_rank);
      p.local_rows = split.count;
      p.row_begin = split.begin;
      break;
    }
    case TpSplit::columns:
      SFT_ENSURE(p.columns % tp_size == 0, "columns divide over tp");
      p.local_columns = p.columns / tp_size;
      p.column_begin = tp_rank * p.local_columns;
      break;
    case TpSplit::kv_rows: {
      SFT_ENSURE(p.num_kv_heads > 0, "rows of key/value heads say how many heads");
      const std::int64_t num_slices = std::min<std::int64_t>(tp_size, p.num_kv_heads);
      SFT_ENSURE(tp_size % num_slices == 0, "key/value heads divide over tp, or tp over them");
      SFT_ENSURE(p.rows % num_slices == 0, "key/value rows divide over tp");
      const std::int64_t replicas = tp_size / num_slices;
      p.local_rows = p.rows / num_slices;
      p.row_begin = tp_rank / replicas * p.local_rows;
      p.is_owner = p.is_owner && tp_rank % replicas == 0;
      break;
    }
  }
  if (p.num_experts == 0) return;
  const int ep_size = place.size(Axis::ep);
  SFT_ENSURE(p.num_experts % ep_size == 0, "experts divide over ep");
  if (p.expert / (p.num_experts / ep_size) == place.rank(Axis::ep)) return;
  p.local_rows = 0;
  p.is_owner = false;
}

/// The pieces whose parameters satisfy `predicate`, neighbours merged.
std::vector<ShardRange> merge(std::span<const Piece> pieces, const std::function<bool(const Parameter&)>& predicate) {
  std::vector<ShardRange> result;
  for (const Piece& piece : pieces) {
    if (!predicate(*piece.parameter)) continue;
    if (!result.empty() && result.back().begin + result.back().count == piece.shard_offset) {
      result.back().count += piece.count;
    } else {
      result.push_back({piece.shard_offset, piece.count});
    }
  }
  return result;
}

}  // namespace

VocabSplit split_vocab(std::int64_t vocab_size, int tp_size, TpRank tp_rank) {
  SFT_ENSURE(vocab_size >= tp_size, "every tp rank has a row of the vocabulary");
  const std::int64_t least = vocab_size / tp_size, num_larger = vocab_size % tp_size;
  return {.begin = tp_rank * least + std::min<std::int64_t>(tp_rank, num_larger),
          .count = least + (tp_rank < num_larger ? 1 : 0),
          .max_count = least + (num_larger > 0 ? 1 : 0)};
}

AxisSet slice_axes_of(const std::vector<Unit>& units) {
  std::int64_t num_parameters = 0, num_of_experts = 0;
  for (const Unit& unit : units) {
    num_parameters += std::ssize(unit.parameters);
    num_of_experts += std::ranges::count_if(unit.parameters, [](const Parameter& p) { return p.num_experts > 0; });
  }
  if (num_of_experts == 0) return {Axis::tp};
  SFT_ENSURE(num_of_experts == num_parameters, "experts are in a part of their own");
  return {Axis::ep, Axis::tp};
}

ShardMap::ShardMap(std::vector<Unit> units, const mesh::Place& place, const AxisSet& shard_axes)
    : units_(std::move(units)), place_(place), shard_axes_(shard_axes), slice_axes_(slice_axes_of(units_)) {
  SFT_ENSURE(shard_axes.without(slice_axes_) == shard_axes, "units are sharded over axes that do not slice them");
  const int fsdp_size = place.size(shard_axes);
  const int fsdp_rank = place.rank(shard_axes);
  const bool is_first = place.owns_shard(shard_axes, slice_axes_);
  for (Unit& unit : units_) {
    first_piece_.push_back(pieces_.size());
    std::int64_t offset = 0;
    for (Parameter& p : unit.parameters) {
      slice(p, place, is_first);
      p.unit_offset = p.joins_previous ? offset : round_up(offset, alignment_elements);
      offset = p.unit_offset + p.local_elements();
    }
    unit.num_elements = round_up(offset, fsdp_size * alignment_elements);
    unit.shard_elements = unit.num_elements / fsdp_size;
    unit.shard_offset = rank_shard_elements_;
    rank_shard_elements_ += unit.shard_elements;

    const std::int64_t shard_begin = fsdp_rank * unit.shard_elements;
    const std::int64_t shard_end = shard_begin + unit.shard_elements;
    for (const Parameter& p : unit.parameters) {
      const std::int64_t begin = std::max(p.unit_offset, shard_begin);
      const std::int64_t end = std::min(p.unit_offset + p.local_elements(), shard_end);
      if (begin < end) {
        pieces_.push_back({&p, begin - p.unit_offset, end - begin, unit.shard_offset + begin - shard_begin});
      }
    }
  }
  first_piece_.push_back(pieces_.size());
}

std::vector<LogicalRectangle> ShardMap::rectangles(const Piece& piece) {
  const Parameter& p = *piece.parameter;
  std::vector<LogicalRectangle> result = rectangles({piece.begin, piece.count, p.local_columns}, piece.shard_offset);
  for (LogicalRectangle& rectangle : result) {
    rectangle.row_begin += p.row_begin;
    rectangle.column_begin += p.column_begin;
  }
  return result;
}

std::vector<LogicalRectangle> ShardMap::rectangles(const LogicalRun& run, std::int64_t shard_offset) {
  const auto& [begin, count, width] = run;
  std::vector<LogicalRectangle> result;
  std::int64_t at = begin;
  std::int64_t left = count;
  while (left > 0) {
    const std::int64_t row = at / width;
    const std::int64_t column = at % width;
    const bool whole_rows = column == 0 && left >= width;
    const std::int64_t num_rows = whole_rows ? left / width : 1;
    const std::int64_t num_columns = whole_rows ? width : std::min(width - column, left);
    result.push_back({row, num_rows, column, num_columns, shard_offset + at - begin});
    at += num_rows * num_columns;
    left -= num_rows * num_columns;
  }
  return result;
}

std::vector<ShardRange> ShardMap::ranges(const std::function<bool(const Parameter&)>& predicate) const {
  return merge(pieces_, predicate);
}

std::vector<ShardRange> ShardMap::ranges_of_unit(UnitIndex index,
                                                 const std::function<bool(const Parameter&)>& predicate) const {
  const std::size_t begin = first_piece_[index], end = first_piece_[index + 1];
  return merge(std::span(pieces_).subspan(begin, end - begin), predicate);
}

std::vector<ShardRange> ShardMap::padding() const {
  std::vector<ShardRange> result;
  std::int64_t end = 0;  // of the parameters so far
  for (const ShardRange& range : ranges([](const Parameter&) { return true; })) {
    if (range.begin > end) result.push_back({end, range.begin - end});
    end = range.begin + range.count;
  }
  if (end < rank_shard_elements_) result.push_back({end, rank_shard_elements_ - end});
  return result;
}

std::vector<ShardRange> ShardMap::padding_of_unit(UnitIndex index) const {
  std::vector<ShardRange> result;
  std::int64_t end = 0;  // of the parameters so far
  for (const Parameter& p : unit(index).parameters) {
    if (p.unit_offset > end) result.push_back({end, p.unit_offset - end});
    end = p.unit_offset + p.local_elements();
  }
  if (end < unit(index).num_elements) result.push_back({end, unit(index).num_elements - end});
  return result;
}

std::int64_t ShardMap::num_parameters() const {
  std::int64_t n = 0;
  for (const Unit& unit : units_) {
    for (const Parameter& p : unit.parameters) n += p.elements();
  }
  return n;
}

}  // namespace sft::parallel
