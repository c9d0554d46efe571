// SPDX-License-Identifier: Apache-2.0
#include "sft/parallel/unit_order.hpp"

#include <stdexcept>

namespace sft::parallel {

namespace {

void require(bool condition, const std::string& what) {
  if (!condition) throw std::logic_error("order of units: " + what);
}

}  // namespace

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
  require(!holder, name(unit) + " is gathered before " + (holder ? name(*holder) : "") +
                       ", which has the same buffer, is released");
  holder = unit;
  states_[unit] = State::gathered;
  return true;
}

void UnitOrder::use(UnitIndex unit) {
  require(states_[unit] != State::released, name(unit) + " is used before it is gathered");
  states_[unit] = State::in_use;
}

void UnitOrder::read_parameters(UnitIndex unit) const {
  require(states_[unit] == State::in_use, name(unit) + " is read while it is not in use");
}

bool UnitOrder::release(UnitIndex unit) {
  if (states_[unit] == State::released) return false;
  parameter_holder_[slots_.parameters[unit]].reset();
  states_[unit] = State::released;
  return true;
}

void UnitOrder::write_gradient(UnitIndex unit) {
  std::optional<UnitIndex>& holder = gradient_holder_[slots_.gradients[unit]];
  require(holder.value_or(unit) == unit, "the gradient of " + name(unit) + " is written before that of " +
                                             (holder ? name(*holder) : "") + ", which has the same buffer, is reduced");
  holder = unit;
}

void UnitOrder::reduce(UnitIndex unit) {
  write_gradient(unit);
  gradient_holder_[slots_.gradients[unit]].reset();
}

}  // namespace sft::parallel
