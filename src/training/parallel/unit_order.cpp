// SPDX-License-Identifier: Apache-2.0
#include "sft/parallel/unit_order.hpp"

#include <fmt/core.h>
#include <algorithm>
#include <stdexcept>

#include "sft/core/ensure.hpp"

namespace sft::parallel {

namespace {

void require(bool condition, const std::string& what) {
  if (!condition) throw std::logic_error(fmt::format("order of units: {}", what));
}

}  // namespace

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

UnitOrder::UnitOrder(const ShardMap& shard_map, const SlotAssignment& slots)
    : shard_map_(shard_map),
      slots_(slots),
      states_(shard_map.num_units()),
      parameter_holder_(slots.num_parameter_slots()),
      gradient_holder_(slots.num_gradient_slots()) {}

const std::string& UnitOrder::name(UnitIndex unit) const { return shard_map_.unit(unit).name; }

bool UnitOrder::may_gather(UnitIndex unit) const {
  return parameter_holder_[slots_.parameters[unit]].value_or(unit) == unit;
}

bool UnitOrder::gather(UnitIndex unit) {
  if (states_[unit] != State::released) return false;
  std::optional<UnitIndex>& holder = parameter_holder_[slots_.parameters[unit]];
  require(!holder, fmt::format("{} is gathered before {}, which has the same buffer, is released", name(unit),
                               holder ? name(*holder) : ""));
  holder = unit;
  states_[unit] = State::gathered;
  return true;
}

void UnitOrder::use(UnitIndex unit) {
  require(states_[unit] != State::released, fmt::format("{} is used before it is gathered", name(unit)));
  states_[unit] = State::in_use;
}

void UnitOrder::read_parameters(UnitIndex unit) const {
  require(states_[unit] == State::in_use, fmt::format("{} is read while it is not in use", name(unit)));
}

bool UnitOrder::release(UnitIndex unit) {
  if (states_[unit] == State::released) return false;
  parameter_holder_[slots_.parameters[unit]].reset();
  states_[unit] = State::released;
  return true;
}

void UnitOrder::write_gradient(UnitIndex unit) {
  std::optional<UnitIndex>& holder = gradient_holder_[slots_.gradients[unit]];
  require(holder.value_or(unit) == unit,
          fmt::format("the gradient of {} is written before that of {}, which has the same buffer, is reduced",
                      name(unit), holder ? name(*holder) : ""));
  holder = unit;
}

void UnitOrder::reduce(UnitIndex unit) {
  write_gradient(unit);
  gradient_holder_[slots_.gradients[unit]].reset();
}

}  // namespace sft::parallel
