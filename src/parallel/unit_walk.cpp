// SPDX-License-Identifier: Apache-2.0
#include "sft/parallel/unit_walk.hpp"

#include <algorithm>

#include "sft/core/ensure.hpp"

namespace sft::parallel {

UnitWalk::UnitWalk(const std::vector<UnitIndex>& units, const SlotAssignment& slots) {
  SFT_ENSURE(!units.empty(), "a pass uses some unit");
  for (const UnitIndex unit : units) {
    if (stops_.empty() || stops_.back().unit != unit) stops_.push_back({unit, Departure::release});
  }
  for (std::size_t stop = 0; stop < stops_.size(); ++stop) {
    const UnitIndex unit = stops_[stop].unit;
    const auto later = stops_.begin() + static_cast<std::ptrdiff_t>(stop) + 1;
    const auto again = std::ranges::find(later, stops_.end(), unit, &Stop::unit);
    if (again == stops_.end()) continue;
    const bool is_displaced =
        std::any_of(later, again, [&](const Stop& other) { return slots.share_parameters(unit, other.unit); });
    stops_[stop].departure = is_displaced ? Departure::reshard : Departure::keep;
  }
}

}  // namespace sft::parallel
