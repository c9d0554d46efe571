// SPDX-License-Identifier: Apache-2.0
#include "update_plan.hpp"

#include <algorithm>
#include <set>
#include <string>

#include "sft/core/ensure.hpp"

namespace sft::optim {

namespace {

using parallel::Parameter;

/// FNV-1a.
std::uint64_t hash_of(const std::string& name) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  return hash;
}

Treatment treatment_of(const Parameter& parameter) {
  return parameter.decays() ? Treatment::decay : Treatment::no_decay;
}

bool is_stepped(parallel::UnitIndex unit, const Parameter& parameter, const IsParameter& is_left_out) {
  return !is_left_out || !is_left_out(unit, parameter);
}

/// Runs as long as they can be.
std::vector<Run> merged_runs(const parallel::ShardMap& shard_map, parallel::UnitIndex unit,
                             const IsParameter& is_left_out) {
  std::set<double> factors;
  for (const Parameter& p : shard_map.unit(unit).parameters) factors.insert(p.rate_factor);
  std::vector<Run> runs;
  for (const Treatment treatment : {Treatment::decay, Treatment::no_decay}) {
    for (const double factor : factors) {
      for (const parallel::ShardRange& range : shard_map.ranges_of_unit(unit, [&](const Parameter& p) {
             return is_stepped(unit, p, is_left_out) && treatment_of(p) == treatment && p.rate_factor == factor;
           })) {
        runs.push_back({range.begin, range.count, treatment, factor, {}});
      }
    }
  }
  return runs;
}

/// A run for each rectangle of a logical tensor.
std::vector<ParameterRun> rectangle_runs(const parallel::ShardMap& shard_map, parallel::UnitIndex unit_index) {
  const parallel::Unit& unit = shard_map.unit(unit_index);
  std::vector<ParameterRun> runs;
  for (const parallel::Piece& piece : shard_map.pieces()) {
    const Parameter& parameter = *piece.parameter;
    if (piece.shard_offset < unit.shard_offset || piece.shard_offset >= unit.shard_offset + unit.shard_elements) {
      continue;
    }
    const std::int64_t columns = parameter.is_vector() ? 1 : parameter.columns;
    for (const parallel::LogicalRectangle& r : parallel::ShardMap::rectangles(piece)) {
      const std::int64_t count = r.num_rows * r.num_columns;
      const bool is_whole = r.num_columns == columns;  // then all its rows are one
      runs.push_back({&parameter,
                      unit_index,
                      r.shard_offset,
                      count,
                      {.key = hash_of(parameter.name),
                       .first_index = r.row_begin * columns + r.column_begin,
                       .num_columns = is_whole ? count : r.num_columns,
                       .row_stride = columns}});
    }
  }
  return runs;
}

std::vector<Run> runs_by_element(const parallel::ShardMap& shard_map, parallel::UnitIndex unit,
                                 const IsParameter& is_left_out) {
  std::vector<Run> runs;
  for (const ParameterRun& run : rectangle_runs(shard_map, unit)) {
    if (!is_stepped(unit, *run.parameter, is_left_out)) continue;
    runs.push_back({run.begin, run.count, treatment_of(*run.parameter), run.parameter->rate_factor, run.rounding});
  }
  return runs;
}

/// The part of a run within [begin, end); of no elements: none is.
template <class AnyRun>
AnyRun part_of(const AnyRun& run, std::int64_t begin, std::int64_t end) {
  AnyRun part = run;
  part.begin = std::max(run.begin, begin);
  part.count = std::max<std::int64_t>(std::min(run.begin + run.count, end) - part.begin, 0);
  part.rounding.begin = part.begin - run.begin;
  return part;
}

/// Those of `runs` that have any.
std::vector<Run> parts_of(const std::vector<Run>& runs, std::int64_t begin, std::int64_t end) {
  std::vector<Run> parts;
  for (const Run& run : runs) {
    const Run part = part_of(run, begin, end);
    if (part.count > 0) parts.push_back(part);
  }
  return parts;
}

}  // namespace

std::vector<Window> plan_updates(const parallel::ShardMap& shard_map, std::int64_t max_elements, bool by_element,
                                 const IsParameter& is_left_out) {
  SFT_ENSURE(max_elements > 0, "windows end at aligned elements");
  SFT_ENSURE(max_elements % parallel::alignment_elements == 0, "windows end at aligned elements");
  std::vector<Window> windows;
  for (const parallel::UnitIndex u : shard_map.unit_indices()) {
    const parallel::Unit& unit = shard_map.unit(u);
    const std::vector<Run> runs =
        by_element ? runs_by_element(shard_map, u, is_left_out) : merged_runs(shard_map, u, is_left_out);
    const std::int64_t unit_end = unit.shard_offset + unit.shard_elements;
    for (std::int64_t begin = unit.shard_offset; begin < unit_end; begin += max_elements) {
      const std::int64_t end = std::min(begin + max_elements, unit_end);
      windows.push_back({u, begin, end - begin, parts_of(runs, begin, end)});
    }
  }
  return windows;
}

std::vector<ParameterRun> plan_parameters(const parallel::ShardMap& shard_map, const IsParameter& is_meant) {
  std::vector<ParameterRun> runs;
  for (const parallel::UnitIndex unit : shard_map.unit_indices()) {
    for (const ParameterRun& run : rectangle_runs(shard_map, unit)) {
      if (is_meant(unit, *run.parameter)) runs.push_back(run);
    }
  }
  return runs;
}

ParameterRun cut(const ParameterRun& run, std::int64_t begin, std::int64_t end) { return part_of(run, begin, end); }

std::int64_t max_window_elements(const StateForm& form) {
  const bool is_offloaded =
      form.moments_location != StateLocation::device || form.master_location != StateLocation::device;
  return is_offloaded ? form.window_elements : std::int64_t{1} << 60;
}

DType master_dtype(const StateForm& form) { return form.rounds_parameters ? DType::bf16 : DType::float32; }

std::vector<parallel::UnitIndex> units_of(const std::vector<Window>& windows) {
  std::vector<parallel::UnitIndex> units;
  for (const Window& window : windows) units.push_back(window.unit);
  return units;
}

std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  // The finalizer of splitmix64 (Steele, Lea & Flood 2014).
  std::uint64_t x = a * 0x9e3779b97f4a7c15U + b;
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31U);
}

}  // namespace sft::optim
