// SPDX-License-Identifier: Apache-2.0
#include "sft/mesh/layout.hpp"

#include "sft/core/ensure.hpp"
#include "sft/mesh/place.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <iterator>

#include "sft/config/config.hpp"

namespace sft::mesh {

namespace {

bool is_always_named(Axis axis) {
  return std::ranges::any_of(config::axis_keys,
                             [=](const config::AxisKeys& keys) { return keys.axis == axis && keys.is_always_named; });
}

}  // namespace

Coordinates Layout::coordinates(WorldRank rank) const {
  Coordinates result;
  int rest = rank;
  for (std::size_t i = num_axes; i-- > 0;) {  // the fastest axis first
    const Axis axis = all_axes[i];
    result[axis] = rest % sizes_[axis];
    rest /= sizes_[axis];
  }
  return result;
}

WorldRank Layout::rank(const Coordinates& coordinates) const { return WorldRank::from(rank(coordinates, every_axis)); }

int Layout::rank(const Coordinates& coordinates, const AxisSet& axes) const {
  int number = 0;
  for (const Axis axis : all_axes) {
    if (axes.contains(axis)) number = number * sizes_[axis] + coordinates[axis];
  }
  return number;
}

std::vector<WorldRank> Layout::members(WorldRank rank, const AxisSet& axes) const {
  const AxisSet fixed = every_axis.without(axes);
  const int own = this->rank(coordinates(rank), fixed);
  std::vector<WorldRank> members;
  for (const WorldRank other : ranks()) {
    if (this->rank(coordinates(other), fixed) == own) members.push_back(other);
  }
  return members;
}

std::vector<Axis> Layout::named_axes() const {
  std::vector<Axis> axes;
  std::ranges::copy_if(all_axes, std::back_inserter(axes),
                       [&](Axis axis) { return sizes_[axis] > 1 || is_always_named(axis); });
  return axes;
}

std::string Layout::describe() const {
  std::vector<int> sizes;
  std::vector<std::string_view> names;
  for (const Axis axis : named_axes()) {
    sizes.push_back(sizes_[axis]);
    names.push_back(name_of(axis));
  }
  return fmt::format("{} ({})", fmt::join(sizes, " x "), fmt::join(names, " x "));
}

AxisSet Layout::axes_between_nodes(const IndexedVector<WorldRank, int>& node_of_rank) const {
  AxisSet result;
  int stride = 1;
  for (std::size_t i = num_axes; i-- > 0;) {  // the fastest axis first
    const Axis axis = all_axes[i];
    for (const WorldRank rank : ranks()) {
      const bool has_neighbour = rank / stride % sizes_[axis] + 1 < sizes_[axis];
      if (has_neighbour && node_of_rank[rank] != node_of_rank[WorldRank::from(rank + stride)]) result.insert(axis);
    }
    stride *= sizes_[axis];
  }
  return result;
}

Layout layout_of(const config::Parallel& parallel) { return Layout(parallel.sizes()); }

Place::Place(const Layout& layout, WorldRank rank) : layout_(layout), coordinates_(layout.coordinates(rank)) {
  SFT_ENSURE(rank >= 0, "a rank of the mesh");
  SFT_ENSURE(rank < layout.size(), "a rank of the mesh");
}

Place::Place(const config::ValidConfig& config, WorldRank rank) : Place(layout_of(config->parallel), rank) {}

}  // namespace sft::mesh
