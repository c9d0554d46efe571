// SPDX-License-Identifier: Apache-2.0
#include "sft/mesh/groups.hpp"

#include <algorithm>
#include <string>

#include "sft/core/error.hpp"

namespace sft::mesh {

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
  const bool has_copies = place.fsdp_size() < layout.dp_shard * layout.sp;  // on the ranks of dp_shard x sp too
  replicate = has_copies ? group(place.replicate_size(), {true, true, true, false}, "replicate")
                         : group(layout.dp_replicate, {true, false, false, false}, "dp_replicate");
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

std::vector<comm::Group> Groups::of_tensors() const {
  std::vector<comm::Group> result;
  for (const comm::Group& group : {replicate, fsdp, reshard, sp, tp, kv_replicas}) {
    if (group.size() > 1 && std::ranges::find(result, group) == result.end()) result.push_back(group);
  }
  return result;
}

}  // namespace sft::mesh
