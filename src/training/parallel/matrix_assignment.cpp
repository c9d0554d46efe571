// SPDX-License-Identifier: Apache-2.0
#include "sft/parallel/matrix_assignment.hpp"

#include <algorithm>

#include "sft/core/cast.hpp"

namespace sft::parallel {

MatrixAssignment::MatrixAssignment(const ShardMap& shard_map, const mesh::Place& place,
                                   const std::function<bool(UnitIndex unit, const Parameter&)>& is_assigned) {
  std::vector<AssignedMatrix> matrices;
  for (const UnitIndex unit : shard_map.unit_indices()) {
    for (const Parameter& parameter : shard_map.unit(unit).parameters) {
      if (is_assigned(unit, parameter)) matrices.push_back({unit, &parameter, 0, 0, 0});
    }
  }
  std::ranges::stable_sort(matrices, std::greater(), [](const AssignedMatrix& m) { return m.parameter->elements(); });

  const int fsdp_size = place.size(shard_map.shard_axes()), fsdp_rank = place.rank(shard_map.shard_axes());
  const int tp_size = place.size(Axis::tp), round_size = fsdp_size * tp_size;
  int turn = 0;
  for (AssignedMatrix& matrix : matrices) {
    if (turn == 0) rounds_.emplace_back();
    matrix.fsdp_rank = FsdpRank::from(turn / tp_size);
    matrix.tp_rank = TpRank::from(turn % tp_size);
    rounds_.back().push_back(matrix);
    turn = (turn + 1) % round_size;
  }
  for (std::vector<AssignedMatrix>& round : rounds_) {
    std::int64_t gathered = 0;
    for (AssignedMatrix& matrix : round) {
      if (matrix.num_slices() > 1) joined_elements_ = std::max(joined_elements_, matrix.parameter->elements());
      if (fsdp_size == 1 || matrix.fsdp_rank != fsdp_rank) continue;
      matrix.gathered_offset = gathered;
      gathered += round_up(matrix.parameter->local_elements(), alignment_elements);
    }
    gathered_elements_ = std::max(gathered_elements_, gathered);
  }
}

void MatrixAssignment::lay_out(device::Arena& arena) {
  gathered_slices_ = take(arena, DType::float32, {gathered_elements_});
  joined_slices_ = take(arena, DType::float32, {joined_elements_});
}

}  // namespace sft::parallel
