// SPDX-License-Identifier: Apache-2.0
#include "sft/parallel/fp8_gathers.hpp"

#include <algorithm>

#include "sft/core/cast.hpp"
#include "sft/ops/fp8.hpp"

namespace sft::parallel {

std::vector<UnitMatrix> matrices_of(const Unit& unit) {
  std::vector<UnitMatrix> matrices;
  const Parameter* before = nullptr;  // that this rank has elements of
  for (const Parameter& p : unit.parameters) {
    if (p.local_elements() == 0) continue;
    if (before != nullptr && p.joins_previous && p.expert == before->expert) {
      matrices.back().lines += p.local_rows;
    } else {
      matrices.push_back({.begin = p.unit_offset,
                          .lines = p.local_rows,
                          .terms = p.local_columns,
                          .first = checked_cast<int>(&p - unit.parameters.data())});
    }
    before = &p;
  }
  return matrices;
}

Fp8Gathers::Fp8Gathers(const StoredParts& storage, const UnitBuffers& buffers, const mesh::Groups& groups,
                       device::Device& device, ops::Backend& backend, comm::Collectives& collectives)
    : storage_(storage),
      buffers_(buffers),
      groups_(groups),
      device_(device),
      backend_(backend),
      collectives_(collectives),
      has_scales_(storage.front().shard_map().num_units()),
      rounded_(device.make_event()),
      sent_(device.make_event()) {}

bool Fp8Gathers::has_codes(PartIndex part, UnitIndex unit) const {
  const UnitStorage& stored = storage_[part];
  return stored.part().in_fp8 && stored.shard_map().unit(unit).num_elements > 0;
}

bool Fp8Gathers::has_codes(UnitIndex unit) const {
  return std::ranges::any_of(storage_, [&](const UnitStorage& stored) {
    return stored.part().in_fp8 && stored.shard_map().unit(unit).num_elements > 0;
  });
}

std::vector<ops::Fp8Run> Fp8Gathers::runs_of(PartIndex part, UnitIndex unit) const {
  const UnitStorage& stored = storage_[part];
  const Unit& map = stored.shard_map().unit(unit);
  const ops::Fp8Tiles tiles = *stored.part().in_fp8;
  const Tensor values = stored.parameters_of(unit), codes = buffers_.codes(part, unit);
  const std::int64_t shard_begin = (groups_.*stored.part().groups.gathers).rank() * map.shard_elements,
                     shard_end = shard_begin + map.shard_elements;
  std::vector<ops::Fp8Run> runs;
  std::int64_t first_scale = 0;
  for (const UnitMatrix& matrix : matrices_of(map)) {
    const auto [scale_rows, scale_columns] = ops::fp8_scale_shape(tiles, matrix.lines, matrix.terms);
    const std::int64_t num_scales = scale_rows * scale_columns;
    const std::int64_t begin = std::max(matrix.begin, shard_begin),
                       end = std::min(matrix.begin + matrix.lines * matrix.terms, shard_end);
    if (begin < end) {
      runs.push_back(
          {.codes = codes.rows(begin - shard_begin, end - begin),
           .in = values.rows(begin - shard_begin, end - begin),
           .first = begin - matrix.begin,
           .lines = matrix.lines,
           .terms = matrix.terms,
           .scales = buffers_.scales(part, unit).rows(first_scale, num_scales).view({scale_rows, scale_columns}),
           .tiles = tiles});
    }
    first_scale += num_scales;
  }
  return runs;
}

void Fp8Gathers::round(UnitIndex unit, device::Event& written, device::Stream& gather_stream) {
  if (!has_codes(unit)) return;
  backend_.stream().wait(written);
  backend_.stream().wait(*sent_);
  const std::string& name = storage_.front().shard_map().unit(unit).name;
  const comm::CallSubject subject(name);
  timed(device_.timeline(), backend_.stream(), {.category = "unit", .what = "round to fp8", .of = name}, [&] {
    for (const PartIndex part : storage_.indices()) {
      if (!has_codes(part, unit)) continue;
      if (!has_scales_[unit]) find_scales(part, unit);
      for (const ops::Fp8Run& run : runs_of(part, unit)) backend_.run(ops::RoundFp8Run{run});
    }
  });
  has_scales_[unit] = true;
  rounded_->record(backend_.stream());
  gather_stream.wait(*rounded_);
}

void Fp8Gathers::sent(UnitIndex unit, device::Stream& gather_stream) {
  if (has_codes(unit)) sent_->record(gather_stream);
}

void Fp8Gathers::find_scales(PartIndex part, UnitIndex unit) {
  const Tensor scales = buffers_.scales(part, unit);
  if (scales.empty()) return;
  backend_.run(ops::Fill{scales, ops::fp8_least_scale});
  for (const ops::Fp8Run& run : runs_of(part, unit)) backend_.run(ops::RaiseFp8Scales{run});
  const Part& p = storage_[part].part();
  std::vector<const comm::Group*> groups{&(groups_.*p.groups.shards)};
  if (p.in_fp8 == ops::Fp8Tiles::whole) groups.push_back(&groups_.tp);
  for (const comm::Group* group : groups) {
    if (group->size() > 1) collectives_.all_reduce(*group, scales, comm::ReduceOp::max, backend_.stream());
  }
}

Tensor Fp8Gathers::scales(const ParameterGroup& group) const {
  const UnitStorage& stored = storage_[group.part];
  std::int64_t begin = 0, count = 0, num_matrices = 0;  // of scales
  for (const UnitMatrix& matrix : matrices_of(stored.shard_map().unit(group.unit))) {
    const std::int64_t num_scales = matrix.num_scales(*stored.part().in_fp8);
    if (matrix.first < group.first) {
      begin += num_scales;
    } else if (matrix.first < group.first + group.count) {
      count += num_scales;
      ++num_matrices;
    }
  }
  return buffers_.scales(group.part, group.unit).rows(begin, count).view({num_matrices, count / num_matrices});
}

}  // namespace sft::parallel
