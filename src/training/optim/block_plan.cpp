// SPDX-License-Identifier: Apache-2.0
#include "block_plan.hpp"

#include <algorithm>
#include <set>

#include "sft/core/cast.hpp"
#include "sft/core/ensure.hpp"

namespace sft::optim {

namespace {

using ops::block_elements;
using parallel::alignment_elements;
using parallel::Parameter;
using parallel::ShardMap;
using parallel::ShardRange;

std::int64_t blocks_in(std::int64_t elements) { return (elements + block_elements - 1) / block_elements; }

/// Whether a rank of tp has columns whose ends lie within blocks, in one row after the other.
bool has_cut_rows(const Parameter& parameter) {
  const bool is_sliced = parameter.local_columns < width_of(parameter);
  return is_sliced && (parameter.columns % block_elements != 0 || parameter.local_columns % block_elements != 0);
}

/// Adds the blocks within which a slice begins, or the shard of another rank of fsdp.
void add_cuts(const ShardMap& shard_map, const parallel::Unit& unit, const Parameter& parameter,
              std::set<std::int64_t>& blocks) {
  const auto cut_before = [&](std::int64_t local_element) {
    const std::int64_t row = local_element / parameter.local_columns, column = local_element % parameter.local_columns;
    const std::int64_t element = (parameter.row_begin + row) * width_of(parameter) + parameter.column_begin + column;
    if (element % block_elements != 0) blocks.insert(element / block_elements);
  };
  cut_before(0);
  const std::int64_t first = parameter.unit_offset, end = first + parameter.local_elements();
  for (int rank = 1; rank < shard_map.place().size(shard_map.shard_axes()); ++rank) {
    const std::int64_t border = rank * unit.shard_elements;
    if (border > first && border < end) cut_before(border - first);
  }
}

/// One row of neighbours.
bool is_contiguous(const ParameterRun& run) { return run.count <= run.rounding.num_columns; }

/// Runs of neighbours in the logical tensor, as long as they can be, and rectangles of slices.
std::vector<ParameterRun> joined_runs(const ShardMap& shard_map) {
  std::vector<ParameterRun> joined;
  for (const ParameterRun& run :
       plan_parameters(shard_map, [](parallel::UnitIndex, const Parameter&) { return true; })) {
    const bool continues = !joined.empty() && joined.back().parameter == run.parameter && is_contiguous(run) &&
                           is_contiguous(joined.back()) &&
                           joined.back().rounding.first_index + joined.back().count == run.rounding.first_index;
    if (continues) {
      joined.back().count += run.count;
      joined.back().rounding.num_columns = joined.back().count;
    } else {
      joined.push_back(run);
    }
  }
  return joined;
}

/// Elements [begin, begin + count) of a run.
BlockRun part_of(const ParameterRun& run, BlockRun::Kind kind, std::int64_t begin, std::int64_t count) {
  BlockRun part{.parameter = run.parameter,
                .unit = run.unit,
                .kind = kind,
                .begin = run.begin + begin,
                .count = count,
                .state_begin = 0,
                .scale_begin = 0,
                .num_scales = 0,
                .first_block = 0,
                .rounding = run.rounding};
  part.rounding.begin = begin;
  return part;
}

/// Calls visit(part) for the parts of a run of blocks.
template <class Visit>
void for_each_part(const ParameterRun& run, const CutBlocks& cuts, const Visit& visit) {
  const auto visit_whole = [&](std::int64_t begin, std::int64_t end) {
    if (begin == end) return;
    BlockRun part = part_of(run, BlockRun::Kind::whole, begin, end - begin);
    part.num_scales = blocks_in(part.count);
    visit(part);
  };
  if (cuts.are_all) {
    BlockRun part = part_of(run, BlockRun::Kind::cut, 0, run.count);
    part.scale_begin = cuts.first_slot;
    part.num_scales = cuts.num_slots;
    return visit(part);
  }
  if (!is_contiguous(run)) return visit_whole(0, run.count);
  const std::int64_t first = run.rounding.first_index, end = first + run.count;
  std::int64_t done = first;
  const auto from = std::ranges::lower_bound(cuts.blocks, first / block_elements);
  for (auto block = from; block != cuts.blocks.end() && *block * block_elements < end; ++block) {
    const std::int64_t begin = std::max(*block * block_elements, first);
    visit_whole(done - first, begin - first);
    done = std::min((*block + 1) * block_elements, end);
    BlockRun part = part_of(run, BlockRun::Kind::cut, begin - first, done - begin);
    part.scale_begin = cuts.first_slot + (block - cuts.blocks.begin());
    part.num_scales = 1;
    part.first_block = *block;
    visit(part);
  }
  visit_whole(done - first, end - first);
}

/// The part of a run within [begin, end) of the rank shard.
BlockRun cut(const BlockRun& run, std::int64_t begin, std::int64_t end) {
  BlockRun part = run;
  part.begin = std::max(run.begin, begin);
  part.count = std::min(run.begin + run.count, end) - part.begin;
  const std::int64_t before = part.begin - run.begin;
  part.state_begin += before;
  part.rounding.begin += before;
  if (run.kind != BlockRun::Kind::whole) return part;
  SFT_ENSURE(before % block_elements == 0, "windows end with whole blocks");
  part.scale_begin += before / block_elements;
  part.num_scales = blocks_in(part.count);
  return part;
}

/// Where a window ends that begins at `begin`: at `end`, or at the last border of blocks before it.
std::int64_t window_end(const std::vector<BlockRun>& runs, std::int64_t begin, std::int64_t end) {
  for (const BlockRun& run : runs) {
    const std::int64_t run_end = run.begin + run.count;
    if (run.kind != BlockRun::Kind::whole || end <= run.begin || end >= run_end) continue;
    const std::int64_t last = run.begin + (end - run.begin) / block_elements * block_elements;
    return last > begin ? last : std::min(last + block_elements, run_end);
  }
  return end;
}

/// The ranges of an array that windows have: from its first run's place in each to the next window's.
void set_ranges(std::vector<BlockWindow>& windows, BlockRun::Kind kind, ShardRange BlockWindow::*range,
                std::int64_t size) {
  std::int64_t end = size;
  for (auto window = windows.rbegin(); window != windows.rend(); ++window) {
    const auto first = std::ranges::find(window->runs, kind, &BlockRun::kind);
    const std::int64_t begin = first == window->runs.end() ? end : first->state_begin;
    (*window).*range = {begin, end - begin};
    end = begin;
  }
}

}  // namespace

bool is_blockwise(parallel::UnitIndex unit, const Parameter& parameter) {
  constexpr std::int64_t min_8bit_size = 4096;
  return unit > 0 && parameter.elements() >= min_8bit_size;
}

std::int64_t width_of(const Parameter& parameter) { return parameter.is_vector() ? 1 : parameter.columns; }

std::int64_t num_blocks(const Parameter& parameter) { return blocks_in(parameter.elements()); }

BlockCuts::BlockCuts(const ShardMap& shard_map) {
  std::map<std::string, std::set<std::int64_t>> cut_blocks;
  const auto& place = shard_map.place();
  const WorldRank first = place.layout().members(0, {Axis::ep})[place.rank(Axis::ep)];  // with the same experts
  for (const WorldRank tp_neighbour : place.layout().members(first, {Axis::tp})) {
    const ShardMap map = shard_map.of_rank(tp_neighbour);
    for (const parallel::UnitIndex unit : map.unit_indices()) {
      for (const Parameter& parameter : map.unit(unit).parameters) {
        if (!is_blockwise(unit, parameter) || parameter.local_elements() == 0) continue;
        if (has_cut_rows(parameter)) {
          by_name_[parameter.name].are_all = true;
        } else {
          add_cuts(map, map.unit(unit), parameter, cut_blocks[parameter.name]);
        }
      }
    }
  }
  for (const parallel::Unit& unit : shard_map.units()) {
    for (const Parameter& parameter : unit.parameters) {
      const std::set<std::int64_t>& blocks = cut_blocks[parameter.name];
      const auto found = by_name_.find(parameter.name);
      if (found == by_name_.end() && blocks.empty()) continue;
      CutBlocks& cuts = by_name_[parameter.name];
      cuts.blocks.assign(blocks.begin(), blocks.end());
      cuts.first_slot = num_slots_;
      cuts.num_slots = cuts.are_all ? num_blocks(parameter) : std::ssize(cuts.blocks);
      num_slots_ += cuts.num_slots;
    }
  }
}

const CutBlocks& BlockCuts::of(const Parameter& parameter) const {
  static const CutBlocks none;
  const auto found = by_name_.find(parameter.name);
  return found == by_name_.end() ? none : found->second;
}

BlockPlan::BlockPlan(const ShardMap& shard_map, const BlockCuts& cuts) {
  const auto take = [](std::int64_t& size, std::int64_t count) {
    const std::int64_t begin = size;
    size = round_up(begin + count, alignment_elements);
    return begin;
  };
  for (const ParameterRun& run : joined_runs(shard_map)) {
    if (!is_blockwise(run.unit, *run.parameter)) {
      runs.push_back(part_of(run, BlockRun::Kind::floats, 0, run.count));
      runs.back().state_begin = take(num_floats, run.count);
      continue;
    }
    for_each_part(run, cuts.of(*run.parameter), [&](BlockRun part) {
      const bool is_cut = part.kind == BlockRun::Kind::cut;
      part.state_begin = take(is_cut ? num_cut_codes : num_codes, part.count);
      if (!is_cut) {
        part.scale_begin = num_scales;
        num_scales += part.num_scales;
      }
      runs.push_back(part);
    });
  }
}

std::vector<BlockWindow> plan_windows(const ShardMap& shard_map, const BlockPlan& plan, std::int64_t max_elements) {
  std::vector<BlockWindow> windows;
  for (const parallel::UnitIndex u : shard_map.unit_indices()) {
    const parallel::Unit& unit = shard_map.unit(u);
    std::vector<BlockRun> runs;
    std::ranges::copy_if(plan.runs, std::back_inserter(runs), [&](const BlockRun& run) { return run.unit == u; });
    const std::int64_t unit_end = unit.shard_offset + unit.shard_elements;
    for (std::int64_t begin = unit.shard_offset; begin < unit_end;) {
      const std::int64_t end = window_end(runs, begin, std::min(begin + max_elements, unit_end));
      BlockWindow& window = windows.emplace_back(
          BlockWindow{.unit = u, .shard = {begin, end - begin}, .floats = {}, .codes = {}, .runs = {}});
      for (const BlockRun& run : runs) {
        if (run.begin < end && run.begin + run.count > begin) window.runs.push_back(cut(run, begin, end));
      }
      begin = end;
    }
  }
  set_ranges(windows, BlockRun::Kind::floats, &BlockWindow::floats, plan.num_floats);
  set_ranges(windows, BlockRun::Kind::whole, &BlockWindow::codes, plan.num_codes);
  return windows;
}

}  // namespace sft::optim
