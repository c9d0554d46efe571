// SPDX-License-Identifier: Apache-2.0
#include "block_layouts.hpp"

namespace sft::optim {

namespace {

using ops::block_elements;
using parallel::LogicalRectangle;
using parallel::Parameter;
using parallel::ShardMap;
using parallel::StoredPart;
using parallel::StoredTensor;

/// Those whose state is in blocks, or all others. Calls visit(parameter).
template <class Visit>
void for_each_parameter(const ShardMap& shard_map, bool in_blocks, const Visit& visit) {
  for (const parallel::UnitIndex unit : shard_map.unit_indices()) {
    for (const Parameter& parameter : shard_map.unit(unit).parameters) {
      if (is_blockwise(unit, parameter) == in_blocks) visit(parameter);
    }
  }
}

std::vector<StoredTensor> parameters_as_they_are(const ShardMap& shard_map, bool in_blocks) {
  std::vector<StoredTensor> all;
  for_each_parameter(shard_map, in_blocks, [&](const Parameter& parameter) {
    all.push_back({&parameter, shape_of(parameter)});
  });
  return all;
}

bool has_whole_rows(const Parameter& parameter) {
  return !parameter.is_vector() && parameter.columns % block_elements == 0;
}

/// Numbers [begin, begin + size) of a row-major tensor with rows of `width`, or where the elements are rows of a slice
/// those: of every `per` elements one.
std::vector<LogicalRectangle> rectangles_of(const BlockRun& run, std::int64_t width, std::int64_t per,
                                            std::int64_t offset) {
  const ops::StochasticRounding& r = run.rounding;
  const std::int64_t size = (run.count + per - 1) / per;
  if (r.begin + run.count <= r.num_columns) {
    return ShardMap::rectangles({(r.first_index + r.begin) / per, size, width}, offset);
  }
  const std::int64_t first = r.first_index / per;
  return {{first / width, run.count / r.num_columns, first % width, r.num_columns / per, offset}};
}

void add(const BlockRun& run, const std::vector<LogicalRectangle>& rectangles, std::vector<StoredPart>& parts) {
  for (const LogicalRectangle& where : rectangles) parts.push_back({run.parameter, where, run.parameter->is_owner});
}

/// All runs of a kind, as elements of the parameters; the first of them lies at `offset`.
void add_elements(const BlockPlan& plan, BlockRun::Kind kind, std::int64_t offset, std::vector<StoredPart>& parts) {
  for (const BlockRun& run : plan.runs) {
    if (run.kind != kind) continue;
    add(run, rectangles_of(run, width_of(*run.parameter), 1, offset + run.state_begin), parts);
  }
}

}  // namespace

std::vector<StoredTensor> FloatsLayout::tensors(const ShardMap& shard_map) const {
  return parameters_as_they_are(shard_map, false);
}

std::vector<StoredPart> FloatsLayout::parts(const ShardMap& shard_map) const {
  std::vector<StoredPart> parts;
  add_elements({shard_map, cuts_}, BlockRun::Kind::floats, 0, parts);
  return parts;
}

std::int64_t FloatsLayout::num_elements(const ShardMap& shard_map) const {
  return BlockPlan(shard_map, cuts_).num_floats;
}

std::vector<StoredTensor> CodesLayout::tensors(const ShardMap& shard_map) const {
  return parameters_as_they_are(shard_map, true);
}

std::vector<StoredPart> CodesLayout::parts(const ShardMap& shard_map) const {
  const BlockPlan plan(shard_map, cuts_);
  std::vector<StoredPart> parts;
  add_elements(plan, BlockRun::Kind::whole, 0, parts);
  add_elements(plan, BlockRun::Kind::cut, plan.num_codes, parts);
  return parts;
}

std::int64_t CodesLayout::num_elements(const ShardMap& shard_map) const {
  const BlockPlan plan(shard_map, cuts_);
  return plan.num_codes + plan.num_cut_codes;
}

std::vector<StoredTensor> ScalesLayout::tensors(const ShardMap& shard_map) const {
  std::vector<StoredTensor> all;
  for_each_parameter(shard_map, true, [&](const Parameter& parameter) {
    all.push_back({&parameter, has_whole_rows(parameter)
                                   ? std::vector{parameter.rows, parameter.columns / block_elements}
                                   : std::vector{num_blocks(parameter)}});
  });
  return all;
}

std::vector<StoredPart> ScalesLayout::parts(const ShardMap& shard_map) const {
  const BlockPlan plan(shard_map, cuts_);
  const auto width = [](const Parameter& parameter) {
    return has_whole_rows(parameter) ? parameter.columns / block_elements : 1;
  };
  std::vector<StoredPart> parts;
  for (const BlockRun& run : plan.runs) {
    if (run.kind != BlockRun::Kind::whole) continue;
    add(run, rectangles_of(run, width(*run.parameter), block_elements, run.scale_begin), parts);
  }
  for_each_parameter(shard_map, true, [&](const Parameter& parameter) {
    const CutBlocks& cuts = cuts_.of(parameter);
    const auto add_slots = [&](std::int64_t block, std::int64_t count, std::int64_t slot) {
      for (const LogicalRectangle& where :
           ShardMap::rectangles({block, count, width(parameter)}, plan.num_scales + slot)) {
        parts.push_back({&parameter, where, shard_map.is_first_of_sharers()});
      }
    };
    if (cuts.are_all) return add_slots(0, cuts.num_slots, cuts.first_slot);
    for (std::int64_t i = 0; i < cuts.num_slots; ++i) {
      add_slots(cuts.blocks[i], 1, cuts.first_slot + i);
    }
  });
  return parts;
}

std::int64_t ScalesLayout::num_elements(const ShardMap& shard_map) const {
  return BlockPlan(shard_map, cuts_).num_scales + cuts_.num_slots();
}

}  // namespace sft::optim
