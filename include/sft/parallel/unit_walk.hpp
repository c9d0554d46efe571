// SPDX-License-Identifier: Apache-2.0
#pragma once
// The way of one pass through the units: which unit is used when, and what becomes of its parameters when the next one
// is entered. Pure.

#include <cstddef>
#include <vector>

#include "sft/parallel/unit_buffers.hpp"

namespace sft::parallel {

/// What happens to the parameters of a unit that is left.
enum class Departure {
  keep,     ///< stays whole: no other unit needs its buffer before it is entered again
  reshard,  ///< will be entered again: what reshard_after_forward says
  release,  ///< not needed any more in this pass
};

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

}  // namespace sft::parallel
