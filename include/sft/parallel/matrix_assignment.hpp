// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which rank works on which matrix, where an optimizer needs matrices whole. Pure: planning lays it out without a
// device.
//
// The matrices of all units are assigned to the ranks of fsdp x tp, the largest first, in rounds of one for each rank:
// so all ranks are at work at the same time, on matrices of about the same size, whatever the units are.

#include <cstdint>
#include <functional>
#include <vector>

#include "sft/device/arena.hpp"
#include "sft/mesh/place.hpp"
#include "sft/parallel/shard_map.hpp"
#include "sft/tensor/tensor.hpp"

namespace sft::parallel {

struct AssignedMatrix {
  UnitIndex unit;
  const Parameter* parameter;
  FsdpRank fsdp_rank;            ///< of the rank that works on it
  TpRank tp_rank;                ///< of the same rank
  std::int64_t gathered_offset;  ///< where this tp rank's slice begins in the memory of gathered slices

  /// How many different slices the ranks of tp hold; 1: each has all of it.
  [[nodiscard]] int num_slices() const { return static_cast<int>(parameter->elements() / parameter->local_elements()); }
};

class MatrixAssignment {
 public:
  /// Assigns the matrices that `is_assigned` tells. The map outlives it; `place` is that of its rank.
  MatrixAssignment(const ShardMap& shard_map, const mesh::Place& place,
                   const std::function<bool(UnitIndex unit, const Parameter&)>& is_assigned);

  /// Takes the memory of a round; call with a sizing arena, then with a real one.
  void lay_out(device::Arena& arena);

  /// One matrix for each rank of fsdp x tp in a round, fewer in the last; all ranks have equal rounds.
  [[nodiscard]] const std::vector<std::vector<AssignedMatrix>>& rounds() const { return rounds_; }
  /// float32, flat: slices whose shards come together on this rank; empty where shards are whole slices.
  [[nodiscard]] Tensor gathered_slices() const { return gathered_slices_; }
  /// float32, flat: the slices of the matrix that this rank works on; empty where tp cuts none.
  [[nodiscard]] Tensor joined_slices() const { return joined_slices_; }

 private:
  std::vector<std::vector<AssignedMatrix>> rounds_;
  std::int64_t gathered_elements_ = 0, joined_elements_ = 0;  ///< what the largest round needs
  Tensor gathered_slices_, joined_slices_;
};

}  // namespace sft::parallel
