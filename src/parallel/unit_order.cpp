// SPDX-License-Identifier: Apache-2.0
#include "sft/parallel/unit_order.hpp"

#include <stdexcept>

namespace sft::parallel {

namespace {

constexpr int nobody = -1;

void require(bool condition, const std::string& what) {
  if (!condition) throw std::logic_error("order of units: " + what);
}

}  // namespace

UnitOrder::UnitOrder(const ShardMap& shard_map, const SlotAssignment& slots)
    : shard_map_(shard_map),
      slots_(slots),
      states_(shard_map.units().size(), State::released),
      parameter_holder_(static_cast<std::size_t>(slots.num_parameter_slots()), nobody),
      gradient_holder_(static_cast<std::size_t>(slots.num_gradient_slots()), nobody) {}

const std::string& UnitOrder::name(int unit) const { return shard_map_.unit(unit).name; }

bool UnitOrder::may_gather(int unit) const {
  const auto u = static_cast<std::size_t>(unit);
  const int holder = parameter_holder_[static_cast<std::size_t>(slots_.parameters[u])];
  return holder == nobody || holder == unit;
}

bool UnitOrder::gather(int unit) {
  const auto u = static_cast<std::size_t>(unit);
  if (states_[u] != State::released) return false;
  int& holder = parameter_holder_[static_cast<std::size_t>(slots_.parameters[u])];
  require(holder == nobody, name(unit) + " is gathered before " + (holder == nobody ? "" : name(holder)) +
                                ", which has the same buffer, is released");
  holder = unit;
  states_[u] = State::gathered;
  return true;
}

void UnitOrder::use(int unit) {
  State& state = states_[static_cast<std::size_t>(unit)];
  require(state != State::released, name(unit) + " is used before it is gathered");
  state = State::in_use;
}

void UnitOrder::read_parameters(int unit) const {
  require(states_[static_cast<std::size_t>(unit)] == State::in_use, name(unit) + " is read while it is not in use");
}

bool UnitOrder::release(int unit) {
  const auto u = static_cast<std::size_t>(unit);
  if (states_[u] == State::released) return false;
  parameter_holder_[static_cast<std::size_t>(slots_.parameters[u])] = nobody;
  states_[u] = State::released;
  return true;
}

void UnitOrder::write_gradient(int unit) {
  int& holder = gradient_holder_[static_cast<std::size_t>(slots_.gradients[static_cast<std::size_t>(unit)])];
  require(holder == nobody || holder == unit, "the gradient of " + name(unit) + " is written before that of " +
                                                  (holder == nobody ? "" : name(holder)) +
                                                  ", which has the same buffer, is reduced");
  holder = unit;
}

void UnitOrder::reduce(int unit) {
  write_gradient(unit);
  gradient_holder_[static_cast<std::size_t>(slots_.gradients[static_cast<std::size_t>(unit)])] = nobody;
}

}  // namespace sft::parallel
