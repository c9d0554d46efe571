// SPDX-License-Identifier: Apache-2.0
#include "sft/mesh/groups.hpp"

#include <fmt/core.h>
#include <algorithm>
#include <string>

#include "sft/core/ensure.hpp"
#include "sft/core/error.hpp"

namespace sft::mesh {

namespace {

/// The axes along which ranks hold the same shards.
AxisSet replicate_axes(const Sharing& sharing) { return replica_axes.without(sharing.shard_axes); }

const char* replicate_name(const Place& place, const Sharing& sharing) {
  return place.size(replicate_axes(sharing)) > place.size(Axis::dp_replicate) ? "replicate" : "dp_replicate";
}

constexpr AxisSet of_experts(const AxisSet& axes) { return axes.without({Axis::ep}); }

/// Makes the groups of experts by `along`, `neighbours_in` and `apart`, as the others of `groups` were.
template <class Along, class NeighboursIn, class Apart>
void add_groups_of_experts(Groups& groups, const Place& place, const Sharing& sharing, const Along& along,
                           const NeighboursIn& neighbours_in, const Apart& apart) {
  groups.ep = along(AxisSet{Axis::ep}, "ep");
  if (place.size(Axis::ep) == 1) {
    groups.expert_replicate = groups.replicate;
    groups.expert_fsdp = groups.fsdp;
    groups.expert_gathers = groups.gathers;
    groups.expert_reshard = groups.reshard;
    return;
  }
  groups.expert_replicate = along(of_experts(replicate_axes(sharing)), "expert_replicate");
  groups.expert_fsdp = along(of_experts(sharing.shard_axes), "expert_fsdp");
  groups.expert_gathers = apart(groups.expert_fsdp, "expert_fsdp gathers");
  groups.expert_reshard = sharing.reshard_size == groups.expert_fsdp.size()
                              ? groups.expert_fsdp
                              : neighbours_in(groups.expert_fsdp, sharing.reshard_size, "expert_reshard");
}

/// What calls a group is for, beside gathers.
struct Needs {
  bool sums = false, exchanges = false, rounds = false;
  comm::Group within = {};  ///< one before it that has all its ranks; none
};

void require_divisors(const Place& place, const Sharing& sharing) {
  SFT_ENSURE(place.size(sharing.shard_axes) % sharing.reshard_size == 0, "reshard_size divides fsdp");
  SFT_ENSURE(place.size(of_experts(sharing.shard_axes)) % sharing.reshard_size == 0,
             "reshard_size divides fsdp of experts");
  SFT_ENSURE(place.size(Axis::tp) % sharing.kv_replicas == 0, "kv_replicas divides tp");
}

}  // namespace

Groups::Groups(const comm::Group& world_in, const Place& place, const Sharing& sharing) : world(world_in) {
  const Layout& layout = place.layout();
  if (layout.size() != world.size()) {
    throw_config_error(fmt::format("the mesh {} has {} ranks", layout.describe(), layout.size()),
                       fmt::format("the program runs on {}", world.size()),
                       "make the product of the sizes the number of ranks");
  }
  require_divisors(place, sharing);
  const comm::Group self = comm::self_group();
  const comm::Group grid = comm::make_cartesian(world, layout.sizes().values());
  const auto along = [&](const AxisSet& axes, const char* name) {
    return place.size(axes) == 1 ? self : comm::cartesian_group(grid, axes.flags(), name);
  };
  const auto neighbours_in = [&](const comm::Group& group, int size, const char* name) {
    return size == 1 ? self : group.split(group.rank() / size, group.rank(), name);
  };
  const auto apart = [&](const comm::Group& group, const char* name) {
    return sharing.gathers_apart && group.size() > 1 ? group.split(0, group.rank(), name) : group;
  };
  replicate = along(replicate_axes(sharing), replicate_name(place, sharing));
  fsdp = along(sharing.shard_axes, "fsdp");
  reshard = sharing.reshard_size == fsdp.size() ? fsdp : neighbours_in(fsdp, sharing.reshard_size, "reshard");
  gathers = apart(fsdp, "fsdp gathers");
  sp = along({Axis::sp}, "sp");
  tp = along({Axis::tp}, "tp");
  rows = along(row_axes, "rows");
  kv_replicas = neighbours_in(tp, sharing.kv_replicas, "kv_replicas");
  add_groups_of_experts(*this, place, sharing, along, neighbours_in, apart);
}

Groups Groups::planned(const Place& place, const Sharing& sharing) {
  require_divisors(place, sharing);
  const auto along = [&](const AxisSet& axes, const char* name) {
    return comm::planned_group(place.rank(axes), place.size(axes), name);
  };
  const auto neighbours_in = [](const comm::Group& group, int size, const char* name) {
    return comm::planned_group(group.rank() % size, size, name);
  };
  const auto apart = [&](const comm::Group& group, const char* name) {
    return sharing.gathers_apart && group.size() > 1 ? comm::planned_group(group.rank(), group.size(), name) : group;
  };
  Groups groups;
  groups.world = along(every_axis, "world");
  groups.replicate = along(replicate_axes(sharing), replicate_name(place, sharing));
  groups.fsdp = along(sharing.shard_axes, "fsdp");
  groups.gathers = apart(groups.fsdp, "fsdp gathers");
  groups.reshard = sharing.reshard_size == groups.fsdp.size()
                       ? groups.fsdp
                       : neighbours_in(groups.fsdp, sharing.reshard_size, "reshard");
  groups.sp = along({Axis::sp}, "sp");
  groups.tp = along({Axis::tp}, "tp");
  groups.rows = along(row_axes, "rows");
  groups.kv_replicas = neighbours_in(groups.tp, sharing.kv_replicas, "kv_replicas");
  add_groups_of_experts(groups, place, sharing, along, neighbours_in, apart);
  return groups;
}

std::vector<comm::TensorGroup> Groups::of_tensors(const TensorUse& use) const {
  std::vector<comm::TensorGroup> result;
  const auto add = [&](const comm::Group& group, Axis axis, const Needs& needs) {
    if (group.size() == 1) return;
    auto of = std::ranges::find(result, group, &comm::TensorGroup::group);
    if (of == result.end()) {
      of = result.insert(of, {group, false, use.max_ctas[axis]});
      of->has_sums = false;
      of->within = needs.within;
    }
    of->has_sums |= needs.sums;
    of->has_exchanges |= needs.exchanges;
    of->has_bf16_sums |= needs.rounds;
  };
  const Needs sums_of_shards{.sums = true, .exchanges = use.exchanges_matrices, .rounds = use.rounds_gradients};
  add(replicate, Axis::dp_replicate, {.sums = true, .rounds = use.rounds_gradients});
  add(fsdp, Axis::dp_shard, sums_of_shards);
  add(gathers, Axis::dp_shard, {.within = fsdp});
  add(reshard, Axis::dp_shard, {.within = fsdp});
  add(sp, Axis::sp, {.sums = true, .exchanges = true});
  add(tp, Axis::tp, {.sums = true, .exchanges = use.exchanges_matrices, .rounds = use.rounds_tp_sums});
  add(kv_replicas, Axis::tp, {.sums = true, .within = tp});
  add(expert_replicate, Axis::dp_replicate, {.sums = true, .rounds = use.rounds_gradients});
  add(expert_fsdp, Axis::dp_shard, sums_of_shards);
  add(expert_gathers, Axis::dp_shard, {.within = expert_fsdp});
  add(expert_reshard, Axis::dp_shard, {.within = expert_fsdp});
  add(ep, Axis::ep, {.sums = true, .exchanges = true});
  return result;
}

}  // namespace sft::mesh
