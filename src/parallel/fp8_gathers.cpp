// SPDX-License-Identifier: Apache-2.0
#include "sft/parallel/fp8_gathers.hpp"

#include <algorithm>

#include "sft/core/cast.hpp"
#include "sft/ops/fp8.hpp"

namespace sft::parallel {

namespace {

/// A run of numbers, and of codes for them, as lines that blocks of threads round whole.
struct Lines {
  ConstTensor numbers;
  Tensor codes;
};

/// The numbers of a run as lines of one tile, then what is left of them.
std::vector<Lines> lines_of(const Tensor& numbers, const Tensor& codes) {
  const std::int64_t size = numbers.num_elements(), whole = size / ops::fp8_tile * ops::fp8_tile, rest = size - whole;
  std::vector<Lines> lines;
  const auto add = [&](std::int64_t begin, std::int64_t num_lines, std::int64_t terms) {
    const auto view = [&](const Tensor& x) { return x.rows(begin, num_lines * terms).view({num_lines, terms}); };
    lines.push_back({view(numbers), view(codes)});
  };
  if (whole > 0) add(0, whole / ops::fp8_tile, ops::fp8_tile);
  if (rest > 0) add(whole, 1, rest);
  return lines;
}

ops::RoundToFp8 rounding(const Lines& lines, const Tensor& scale) {
  return {.out = {lines.codes, scale.view({1, 1}), ops::Fp8Format::e4m3, ops::Fp8Tiles::whole}, .in = lines.numbers};
}

}  // namespace

std::vector<UnitMatrix> matrices_of(const Unit& unit) {
  std::vector<UnitMatrix> matrices;
  const Parameter* before = nullptr;  // that this rank has elements of
  for (const Parameter& p : unit.parameters) {
    if (p.local_elements() == 0) continue;
    if (before != nullptr && p.joins_previous && p.expert == before->expert) {
      matrices.back().count += p.local_elements();
    } else {
      matrices.push_back({.begin = p.unit_offset,
                          .count = p.local_elements(),
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

template <class Visit>
void Fp8Gathers::for_each_piece(PartIndex part, UnitIndex unit, const Visit& visit) const {
  const UnitStorage& stored = storage_[part];
  const Unit& map = stored.shard_map().unit(unit);
  const Tensor numbers = stored.parameters_of(unit), codes = buffers_.codes(part, unit);
  const std::int64_t first = (groups_.*stored.part().groups.gathers).rank() * map.shard_elements;
  const std::vector<UnitMatrix> matrices = matrices_of(map);
  for (std::size_t i = 0; i < matrices.size(); ++i) {
    const std::int64_t begin = std::max(matrices[i].begin - first, std::int64_t{0}),
                       end = std::min(matrices[i].begin + matrices[i].count - first, map.shard_elements);
    if (begin < end) visit(i, numbers.rows(begin, end - begin), codes.rows(begin, end - begin));
  }
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
      round_shard(part, unit);
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
  backend_.fill(scales, ops::fp8_least_scale);  // of matrices of which nothing is in this rank's shard
  for_each_piece(part, unit, [&](std::size_t matrix, const Tensor& numbers, const Tensor& codes) {
    const std::int64_t size = numbers.num_elements();
    backend_.find_fp8_scale(
        rounding({numbers.view({1, size}), codes.view({1, size})}, scales.rows(static_cast<std::int64_t>(matrix), 1)));
  });
  for (const comm::Group* group : {&(groups_.*storage_[part].part().groups.shards), &groups_.tp}) {
    if (group->size() > 1) collectives_.all_reduce(*group, scales, comm::ReduceOp::max, backend_.stream());
  }
}

void Fp8Gathers::round_shard(PartIndex part, UnitIndex unit) {
  const Tensor scales = buffers_.scales(part, unit);
  for_each_piece(part, unit, [&](std::size_t matrix, const Tensor& numbers, const Tensor& codes) {
    const Tensor scale = scales.rows(static_cast<std::int64_t>(matrix), 1);
    for (const Lines& lines : lines_of(numbers, codes)) backend_.round_to_fp8(rounding(lines, scale));
  });
}

Tensor Fp8Gathers::scales(const ParameterGroup& group) const {
  const std::vector<UnitMatrix> matrices = matrices_of(storage_[group.part].shard_map().unit(group.unit));
  const auto is_before = [&](int end) { return [=](const UnitMatrix& matrix) { return matrix.first < end; }; };
  const auto first = std::ranges::count_if(matrices, is_before(group.first)),
             end = std::ranges::count_if(matrices, is_before(group.first + group.count));
  return buffers_.scales(group.part, group.unit).rows(first, end - first);
}

}  // namespace sft::parallel
