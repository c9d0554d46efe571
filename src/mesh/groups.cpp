// SPDX-License-Identifier: Apache-2.0
#include "sft/mesh/groups.hpp"

#include <algorithm>
#include <string>

#include "sft/core/error.hpp"

namespace sft::mesh {

namespace {

const char* replicate_name(const Place& place) {
  return place.replicate_size() > place.layout().dp_replicate ? "replicate" : "dp_replicate";
}

}  // namespace

Groups::Groups(const comm::Group& world_in, const Place& place) : world(world_in) {
  const Layout& layout = place.layout();
  if (layout.size() != world.size()) {
    throw_config_error("the mesh " + layout.describe() + " has " + std::to_string(layout.size()) + " ranks",
                       "the program runs on " + std::to_string(world.size()),
                       "make the product of the sizes the number of ranks");
  }
  const comm::Group self = comm::self_group();
  const comm::Group grid = comm::make_cartesian(world, layout.sizes());
  const auto group = [&](int size, std::array<bool, 4> kept_axes, const char* name) {
    return size == 1 ? self : comm::cartesian_group(grid, kept_axes, name);
  };
  const bool has_copies = place.replicate_size() > layout.dp_replicate;  // on the ranks of dp_shard x sp too
  replicate = group(place.replicate_size(), {true, has_copies, has_copies, false}, replicate_name(place));
  fsdp = group(place.fsdp_size(), {false, true, true, false}, "fsdp");
  const int reshard_size = place.reshard_size();
  reshard = reshard_size == fsdp.size() ? fsdp
            : reshard_size == 1         ? self
                                        : fsdp.split(fsdp.rank() / reshard_size, fsdp.rank(), "reshard");
  sp = group(layout.sp, {false, false, true, false}, "sp");
  tp = group(layout.tp, {false, false, false, true}, "tp");
  const int replicas = place.heads().kv_replicas;
  kv_replicas = replicas == 1 ? self : tp.split(tp.rank() / replicas, tp.rank(), "kv_replicas");
}

Groups Groups::planned(const Place& place) {
  const Layout& layout = place.layout();
  const Coordinates& at = place.coordinates();
  const int replicas = place.heads().kv_replicas;
  Groups groups;
  groups.world = comm::planned_group(place.rank(), layout.size(), "world");
  groups.replicate = comm::planned_group(place.rank() / (place.fsdp_size() * layout.tp), place.replicate_size(),
                                         replicate_name(place));
  groups.fsdp = comm::planned_group(place.fsdp_rank(), place.fsdp_size(), "fsdp");
  const bool is_part = place.reshard_size() < place.fsdp_size();
  groups.reshard = is_part ? comm::planned_group(place.reshard_rank(), place.reshard_size(), "reshard") : groups.fsdp;
  groups.sp = comm::planned_group(at.sp, layout.sp, "sp");
  groups.tp = comm::planned_group(at.tp, layout.tp, "tp");
  groups.kv_replicas = comm::planned_group(at.tp % replicas, replicas, "kv_replicas");
  return groups;
}

std::vector<comm::TensorGroup> Groups::of_tensors(const config::Device& limits, bool exchanges_matrices) const {
  std::vector<comm::TensorGroup> result;
  const auto add = [&](const comm::Group& group, bool has_exchanges, int max_ctas) {
    if (group.size() == 1) return;
    const auto known = std::ranges::find(result, group, &comm::TensorGroup::group);
    if (known == result.end()) {
      result.emplace_back(group, has_exchanges, max_ctas);
    } else {
      known->has_exchanges |= has_exchanges;
    }
  };
  add(replicate, false, limits.dp_replicate_max_ctas);
  add(fsdp, exchanges_matrices, limits.dp_shard_max_ctas);
  add(reshard, false, limits.dp_shard_max_ctas);
  add(sp, true, limits.sp_max_ctas);
  add(tp, exchanges_matrices, limits.tp_max_ctas);
  add(kv_replicas, false, limits.tp_max_ctas);
  return result;
}

}  // namespace sft::mesh
