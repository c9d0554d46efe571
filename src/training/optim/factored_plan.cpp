// SPDX-License-Identifier: Apache-2.0
#include "factored_plan.hpp"

#include <algorithm>
#include <map>

namespace sft::optim {

namespace {

using parallel::LogicalRectangle;
using parallel::Parameter;
using parallel::ShardMap;
using parallel::StoredPart;
using parallel::StoredTensor;

bool is_counted(const ShardMap& shard_map, const Parameter& parameter) {
  const int tp_rank = shard_map.place().rank(Axis::tp), tp_size = shard_map.place().size(Axis::tp);
  switch (parameter.split) {
    case parallel::TpSplit::none:
    case parallel::TpSplit::partial:
      return tp_rank == 0;
    case parallel::TpSplit::kv_rows:
      return tp_rank % (tp_size / std::min<std::int64_t>(tp_size, parameter.num_kv_heads)) == 0;
    case parallel::TpSplit::rows:
    case parallel::TpSplit::columns:
    case parallel::TpSplit::vocab_rows:
      break;
  }
  return true;
}

/// A run, which is a rectangle, with its moments where those of the tensor begin; of a vector at `vector_begin`.
FactoredPart part_of(const ParameterRun& run, std::size_t number, const FactoredTensor& tensor,
                     std::int64_t vector_begin) {
  FactoredPart part{.tensor = number,
                    .unit = run.unit,
                    .begin = run.begin,
                    .num_rows = 1,
                    .num_columns = run.count,
                    .row_begin = 0,
                    .column_begin = vector_begin,
                    .rounding = run.rounding};
  if (run.parameter->is_vector()) return part;
  // Whole rows are numbered as one.
  const std::int64_t width = run.parameter->columns, first = run.rounding.first_index;
  part.num_columns = std::min(run.rounding.num_columns, width);
  part.num_rows = run.count / part.num_columns;
  part.row_begin = tensor.row_begin + first / width;
  part.column_begin = tensor.column_begin + first % width;
  return part;
}

/// Elements [begin, end) of the rank shard, of those that a part has: up to three rectangles.
void add_cut(const FactoredPart& part, std::int64_t begin, std::int64_t end, std::vector<FactoredPart>& parts) {
  const std::int64_t first = std::max(part.begin, begin), last = std::min(part.begin + part.num_elements(), end);
  if (first >= last) return;
  for (const LogicalRectangle& r : ShardMap::rectangles({first - part.begin, last - first, part.num_columns}, first)) {
    FactoredPart& cut = parts.emplace_back(part);
    cut.begin = r.shard_offset;
    cut.num_rows = r.num_rows;
    cut.num_columns = r.num_columns;
    cut.row_begin += r.row_begin;
    cut.column_begin += r.column_begin;
    cut.rounding.first_index += r.row_begin * part.rounding.row_stride + r.column_begin;
  }
}

}  // namespace

FactoredPlan::FactoredPlan(const ShardMap& shard_map) {
  std::map<const Parameter*, std::size_t> numbers;
  for (const parallel::Unit& unit : shard_map.units()) {
    for (const Parameter& parameter : unit.parameters) {
      if (parameter.local_elements() == 0) continue;  // an expert of other ranks
      numbers[&parameter] = tensors.size();
      tensors.push_back({&parameter, num_rows, num_columns, is_counted(shard_map, parameter)});
      if (parameter.is_vector()) continue;
      num_rows += parameter.rows;
      num_columns += parameter.columns;
    }
  }
  for (FactoredTensor& tensor : tensors) tensor.column_begin += num_rows;
  for (const ParameterRun& run :
       plan_parameters(shard_map, [](parallel::UnitIndex, const Parameter&) { return true; })) {
    const std::size_t number = numbers.at(run.parameter);
    parts.push_back(part_of(run, number, tensors[number], num_moments()));
    if (run.parameter->is_vector()) num_vector_elements += run.count;
  }
}

std::vector<FactoredWindow> plan_windows(const ShardMap& shard_map, const FactoredPlan& plan,
                                         std::int64_t max_elements) {
  std::vector<FactoredWindow> windows;
  for (const parallel::UnitIndex u : shard_map.unit_indices()) {
    const parallel::Unit& unit = shard_map.unit(u);
    const std::int64_t unit_end = unit.shard_offset + unit.shard_elements;
    for (std::int64_t begin = unit.shard_offset; begin < unit_end; begin += max_elements) {
      const std::int64_t end = std::min(begin + max_elements, unit_end);
      FactoredWindow& window = windows.emplace_back(FactoredWindow{u, {begin, end - begin}, {}});
      for (const FactoredPart& part : plan.parts) {
        if (part.unit == u) add_cut(part, begin, end, window.parts);
      }
    }
  }
  return windows;
}

std::vector<StoredTensor> MomentsLayout::tensors(const ShardMap& shard_map) const {
  std::vector<StoredTensor> all;
  for (const parallel::Unit& unit : shard_map.units()) {
    for (const Parameter& parameter : unit.parameters) {
      if (parameter.is_vector() != (kind_ == Kind::vectors)) continue;
      all.push_back({&parameter, {kind_ == Kind::columns ? parameter.columns : parameter.rows}});
    }
  }
  return all;
}

std::vector<StoredPart> MomentsLayout::parts(const ShardMap& shard_map) const {
  const FactoredPlan plan(shard_map);
  std::vector<StoredPart> parts;
  if (kind_ == Kind::vectors) {
    for (const FactoredPart& part : plan.parts) {
      const Parameter& parameter = *plan.tensors[part.tensor].parameter;
      if (!parameter.is_vector()) continue;
      parts.push_back({&parameter,
                       {part.rounding.first_index, part.num_columns, 0, 1, part.column_begin - plan.num_shared()},
                       parameter.is_owner});
    }
    return parts;
  }
  const bool is_owner = shard_map.is_first_of_sharers();
  for (const FactoredTensor& tensor : plan.tensors) {
    if (tensor.parameter->is_vector()) continue;
    const LogicalRectangle where =
        kind_ == Kind::rows ? LogicalRectangle{0, tensor.parameter->rows, 0, 1, tensor.row_begin}
                            : LogicalRectangle{0, tensor.parameter->columns, 0, 1, tensor.column_begin - plan.num_rows};
    parts.push_back({tensor.parameter, where, is_owner});
  }
  return parts;
}

std::int64_t MomentsLayout::num_elements(const ShardMap& shard_map) const {
  const FactoredPlan plan(shard_map);
  return kind_ == Kind::rows ? plan.num_rows : kind_ == Kind::columns ? plan.num_columns : plan.num_vector_elements;
}

}  // namespace sft::optim
