// SPDX-License-Identifier: Apache-2.0
#pragma once
// The order in which units may be used, checked: a buffer that several units share must not be taken from one that
// still needs it. Pure.

#include <string>
#include <vector>

#include "sft/parallel/unit_buffers.hpp"

namespace sft::parallel {

/// Follows the verbs of ShardedUnits. Each call throws std::logic_error, naming the units, when it comes too early or
/// too late. The check is the same with one rank, where nothing moves: an order that is wrong on a mesh is found there.
class UnitOrder {
 public:
  /// `shard_map` gives the names; both outlive it.
  UnitOrder(const ShardMap& shard_map, const SlotAssignment& slots);

  /// Whether no other unit holds the slot of this one's parameters.
  [[nodiscard]] bool may_gather(int unit) const;
  /// The unit's parameters get the slot, which no other unit holds. False: they have it already, nothing changes.
  bool gather(int unit);
  /// gather came before.
  void use(int unit);
  /// The unit is in use: between use and release.
  void read_parameters(int unit) const;
  /// The slot is free. False: the unit was not gathered, nothing changes.
  bool release(int unit);
  /// The unit's gradient gets the slot, which no other unit holds, until reduce.
  void write_gradient(int unit);
  void reduce(int unit);

 private:
  enum class State { released, gathered, in_use };
  [[nodiscard]] const std::string& name(int unit) const;

  const ShardMap& shard_map_;
  const SlotAssignment& slots_;
  std::vector<State> states_;                            ///< of each unit
  std::vector<int> parameter_holder_, gradient_holder_;  ///< unit in each slot; -1: none
};

}  // namespace sft::parallel
