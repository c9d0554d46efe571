// SPDX-License-Identifier: Apache-2.0
#pragma once
// The order in which units are used: planned for a pass (UnitWalk), and checked (UnitOrder), for a buffer that several
// units share must not be taken from one that still needs it. Pure.

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "sft/parallel/unit_buffers.hpp"

namespace sft::parallel {

/// What happens to the parameters of a unit that is left.
enum class Departure {
  keep,     ///< stays whole: no other unit needs its buffer before it is entered again
  reshard,  ///< will be entered again: what reshard_after_forward says
  release,  ///< not needed any more in this pass
};

/// The way of one pass through the units: which unit is used when, and what becomes of it when the next one is entered.
class UnitWalk {
 public:
  /// A walk of no unit.
  UnitWalk() = default;
  /// `units` in the order of their use, at least one. The same unit twice in a row counts once.
  UnitWalk(const std::vector<UnitIndex>& units, const SlotAssignment& slots);

  [[nodiscard]] std::size_t num_stops() const { return stops_.size(); }
  [[nodiscard]] UnitIndex unit(std::size_t stop) const { return stops_[stop].unit; }
  [[nodiscard]] Departure departure(std::size_t stop) const { return stops_[stop].departure; }

 private:
  struct Stop {
    UnitIndex unit;
    Departure departure;
  };
  std::vector<Stop> stops_;
};

/// Follows the verbs of ShardedUnits. Each call throws std::logic_error, naming the units, when it comes too early or
/// too late. The check is the same with one rank, where nothing moves: an order that is wrong on a mesh is found there.
class UnitOrder {
 public:
  /// `shard_map` gives the names; both outlive it.
  UnitOrder(const ShardMap& shard_map, const SlotAssignment& slots);

  /// Whether no other unit holds the slot of this one's parameters.
  [[nodiscard]] bool may_gather(UnitIndex unit) const;
  /// The unit's parameters get the slot, which no other unit holds. False: they have it already, nothing changes.
  bool gather(UnitIndex unit);
  /// gather came before.
  void use(UnitIndex unit);
  /// The unit is in use: between use and release.
  void read_parameters(UnitIndex unit) const;
  /// The slot is free. False: the unit was not gathered, nothing changes.
  bool release(UnitIndex unit);
  /// The unit's gradient gets the slot, which no other unit holds, until reduce.
  void write_gradient(UnitIndex unit);
  void reduce(UnitIndex unit);

 private:
  enum class State { released, gathered, in_use };
  [[nodiscard]] const std::string& name(UnitIndex unit) const;

  const ShardMap& shard_map_;
  const SlotAssignment& slots_;
  IndexedVector<UnitIndex, State> states_;
  IndexedVector<SlotIndex, std::optional<UnitIndex>> parameter_holder_, gradient_holder_;  ///< the unit in each slot
};

}  // namespace sft::parallel
