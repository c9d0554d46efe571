// SPDX-License-Identifier: Apache-2.0
#pragma once
// The axes of the mesh of ranks, by name, and what is held for each of them.

#include <array>
#include <cstddef>
#include <initializer_list>
#include <span>
#include <string_view>
#include <utility>

#include "sft/core/index.hpp"

namespace sft {

/// The slowest first: neighbours along the last one have neighbouring ranks, and so mostly share a node. The more often
/// an axis communicates, the further back it stands: replicas once a step, shards once a unit, experts (ep) once a
/// layer, parts of a sequence once an attention, slices of a layer several times in it. As dp_shard, ep and sp stand
/// together, what is sharded over the three has its shards in the order of ranks; experts are sharded over dp_shard and
/// sp.
enum class Axis { dp_replicate, dp_shard, ep, sp, tp };

/// The names of the axes in keys, groups and tables, in the order of the axes.
inline constexpr auto axis_names = std::to_array<std::string_view>({"dp_replicate", "dp_shard", "ep", "sp", "tp"});
inline constexpr std::size_t num_axes = axis_names.size();
static_assert(num_axes == static_cast<std::size_t>(Axis::tp) + 1, "every axis has a name");

[[nodiscard]] constexpr std::string_view name_of(Axis axis) { return axis_names[static_cast<std::size_t>(axis)]; }

/// All axes, in their order.
inline constexpr std::array<Axis, num_axes> all_axes = [] {
  std::array<Axis, num_axes> axes{};
  for (std::size_t i = 0; i < num_axes; ++i) axes[i] = static_cast<Axis>(i);
  return axes;
}();

/// A value for each axis.
template <class T>
class AxisArray {
 public:
  using Named = std::initializer_list<std::pair<Axis, T>>;

  constexpr AxisArray() = default;
  /// The named values; `others` on all other axes.
  constexpr AxisArray(const T& others, Named named) {
    values_.fill(others);
    for (const auto& [axis, value] : named) (*this)[axis] = value;
  }
  /// The named values; T() on all other axes.
  constexpr AxisArray(Named named) : AxisArray(T(), named) {}

  [[nodiscard]] constexpr T& operator[](Axis axis) { return values_[static_cast<std::size_t>(axis)]; }
  [[nodiscard]] constexpr const T& operator[](Axis axis) const { return values_[static_cast<std::size_t>(axis)]; }
  [[nodiscard]] constexpr bool operator==(const AxisArray&) const = default;

  /// The values in the order of the axes. Not for a temporary, which they would outlive.
  [[nodiscard]] constexpr std::span<const T> values() const& { return values_; }
  void values() const&& = delete;

 private:
  std::array<T, num_axes> values_{};
};

/// Some of the axes.
class AxisSet {
 public:
  constexpr AxisSet() = default;
  constexpr AxisSet(std::initializer_list<Axis> axes) {
    for (const Axis axis : axes) insert(axis);
  }

  constexpr void insert(Axis axis) { holds_[axis] = true; }
  [[nodiscard]] constexpr bool contains(Axis axis) const { return holds_[axis]; }
  /// The axes of this set that `other` lacks.
  [[nodiscard]] constexpr AxisSet without(const AxisSet& other) const {
    AxisSet rest;
    for (const Axis axis : all_axes) {
      if (contains(axis) && !other.contains(axis)) rest.insert(axis);
    }
    return rest;
  }
  [[nodiscard]] constexpr bool operator==(const AxisSet&) const = default;

  /// For each axis, in their order, whether it is in this set. Not for a temporary, which they would outlive.
  [[nodiscard]] constexpr std::span<const bool> flags() const& { return holds_.values(); }
  void flags() const&& = delete;

 private:
  AxisArray<bool> holds_;
};

inline constexpr AxisSet every_axis = [] {
  AxisSet axes;
  for (const Axis axis : all_axes) axes.insert(axis);
  return axes;
}();
/// Those whose ranks read different rows.
inline constexpr AxisSet data_axes{Axis::dp_replicate, Axis::dp_shard, Axis::ep};
/// Those whose ranks read the same rows.
inline constexpr AxisSet row_axes = every_axis.without(data_axes);
/// Those over which the state of a unit may be sharded (FSDP), and over which that of experts may.
inline constexpr AxisSet fsdp_axes{Axis::dp_shard, Axis::ep, Axis::sp};
inline constexpr AxisSet expert_fsdp_axes = fsdp_axes.without({Axis::ep});
/// Those whose ranks hold the same parameters, but experts, as far as they are not sharded.
inline constexpr AxisSet replica_axes{Axis::dp_replicate, Axis::dp_shard, Axis::ep, Axis::sp};

/// The number of a rank among all of the mesh.
using WorldRank = Index<struct World>;
/// The numbers of a rank among those that differ along some axes alone, where one group's could be taken for another's:
/// those that units are sharded over, sp, and tp.
using FsdpRank = Index<struct Fsdp>;
using SpRank = Index<struct Sp>;
using TpRank = Index<struct Tp>;

/// The ranks along `axes`, of an array that has the size of each axis.
[[nodiscard]] constexpr int num_ranks(const AxisArray<int>& sizes, const AxisSet& axes) {
  int product = 1;
  for (const Axis axis : all_axes) product *= axes.contains(axis) ? sizes[axis] : 1;
  return product;
}

}  // namespace sft
