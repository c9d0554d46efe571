// SPDX-License-Identifier: Apache-2.0
#pragma once
// Units as a decoder has them, of sizes that differ: an embedding, four blocks, a head.

#include <string>
#include <utility>
#include <vector>

#include "sft/core/cast.hpp"
#include "sft/device/arena.hpp"
#include "sft/parallel/sharding_policy.hpp"
#include "sft/tensor/tensor.hpp"

namespace sft::parallel::test {

inline constexpr int num_sample_units = 6;

inline std::vector<Unit> sample_units() {
  std::vector<Unit> units(num_sample_units);
  for (std::int64_t u = 0; u < num_sample_units; ++u) {
    Unit& unit = units[static_cast<std::size_t>(u)];
    unit.name = "unit " + std::to_string(u);
    unit.parameters.resize(2);
    unit.parameters[0].name = "matrix";
    unit.parameters[0].rows = 31 + 7 * u;
    unit.parameters[0].columns = 19;
    unit.parameters[1].name = "vector";
    unit.parameters[1].rows = 5 + u;
  }
  return units;
}

/// The sample units with other parameters: a matrix in each, but for every third.
inline std::vector<Unit> more_sample_units() {
  std::vector<Unit> units = sample_units();
  for (std::size_t u = 0; u < units.size(); ++u) {
    std::vector<Parameter>& parameters = units[u].parameters;
    parameters.pop_back();
    parameters[0].rows = 53 - 5 * static_cast<std::int64_t>(u);
    if (u % 3 == 2) parameters.clear();
  }
  return units;
}

/// Two parts of the sample units: parameters with gradients, and others.
inline IndexedVector<PartIndex, PartUnits> sample_parts() {
  return {{sample_units(), /*has_gradient=*/true}, {more_sample_units(), /*has_gradient=*/false}};
}
inline constexpr PartIndex trained{0}, untrained{1};

inline constexpr ShardingPolicy all_sharded{.parameters = true, .gradients = true, .optimizer_state = true};

/// Rank `rank` of `num_ranks` in fsdp, and of nothing else.
inline mesh::Place fsdp_place(int num_ranks, int rank) {
  return {{{Axis::dp_shard, num_ranks}}, WorldRank::from(rank)};
}

/// What an arena gives for that many elements.
inline std::size_t bytes_of(std::int64_t num_elements, DType dtype) {
  return round_up(static_cast<std::size_t>(num_elements) * size_of(dtype), device::Arena::alignment_bytes);
}

/// Where a tensor begins, behind the start of another.
inline std::int64_t distance_bytes(const Tensor& from, const Tensor& to) {
  return static_cast<std::byte*>(to.data) - static_cast<std::byte*>(from.data);
}

}  // namespace sft::parallel::test
