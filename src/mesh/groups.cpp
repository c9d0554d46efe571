// SPDX-License-Identifier: Apache-2.0
#include "sft/mesh/groups.hpp"

#include <algorithm>
#include <string>

#include "sft/core/error.hpp"

namespace sft::mesh {

namespace {

const char* replicate_name(const Place& place) {
  return place.replicate_size() > place.size(Axis::dp_replicate) ? "replicate" : "dp_replicate";
}

}  // namespace

Groups::Groups(const comm::Group& world_in, const Place& place, int num_kv_replicas) : world(world_in) {
  const Layout& layout = place.layout();
  if (layout.size() != world.size()) {
    throw_config_error("the mesh " + layout.describe() + " has " + std::to_string(layout.size()) + " ranks",
                       "the program runs on " + std::to_string(world.size()),
                       "make the product of the sizes the number of ranks");
  }
  const comm::Group self = comm::self_group();
  const comm::Group grid = comm::make_cartesian(world, layout.sizes().values());
  const auto group = [&](int size, const AxisSet& axes, const char* name) {
    return size == 1 ? self : comm::cartesian_group(grid, axes.flags(), name);
  };
  replicate = group(place.replicate_size(), place.replicate_axes(), replicate_name(place));
  fsdp = group(place.fsdp_size(), fsdp_axes, "fsdp");
  const int reshard_size = place.reshard_size();
  reshard = reshard_size == fsdp.size() ? fsdp
            : reshard_size == 1         ? self
                                        : fsdp.split(fsdp.rank() / reshard_size, fsdp.rank(), "reshard");
  sp = group(place.size(Axis::sp), {Axis::sp}, "sp");
  tp = group(place.size(Axis::tp), {Axis::tp}, "tp");
  kv_replicas = num_kv_replicas == 1 ? self : tp.split(tp.rank() / num_kv_replicas, tp.rank(), "kv_replicas");
}

Groups Groups::planned(const Place& place, int num_kv_replicas) {
  const int sp_size = place.size(Axis::sp), tp_size = place.size(Axis::tp), tp_rank = place.rank(Axis::tp);
  Groups groups;
  groups.world = comm::planned_group(place.rank(), place.layout().size(), "world");
  groups.replicate =
      comm::planned_group(place.rank(place.replicate_axes()), place.replicate_size(), replicate_name(place));
  groups.fsdp = comm::planned_group(place.fsdp_rank(), place.fsdp_size(), "fsdp");
  const bool is_part = place.reshard_size() < place.fsdp_size();
  groups.reshard = is_part ? comm::planned_group(place.reshard_rank(), place.reshard_size(), "reshard") : groups.fsdp;
  groups.sp = comm::planned_group(place.rank(Axis::sp), sp_size, "sp");
  groups.tp = comm::planned_group(tp_rank, tp_size, "tp");
  groups.kv_replicas = comm::planned_group(tp_rank % num_kv_replicas, num_kv_replicas, "kv_replicas");
  return groups;
}

std::vector<comm::TensorGroup> Groups::of_tensors(const AxisArray<int>& max_ctas, bool exchanges_matrices) const {
  std::vector<comm::TensorGroup> result;
  const auto add = [&](const comm::Group& group, bool has_exchanges, Axis axis) {
    if (group.size() == 1) return;
    const auto known = std::ranges::find(result, group, &comm::TensorGroup::group);
    if (known == result.end()) {
      result.emplace_back(group, has_exchanges, max_ctas[axis]);
    } else {
      known->has_exchanges |= has_exchanges;
    }
  };
  add(replicate, false, Axis::dp_replicate);
  add(fsdp, exchanges_matrices, Axis::dp_shard);
  add(reshard, false, Axis::dp_shard);
  add(sp, true, Axis::sp);
  add(tp, exchanges_matrices, Axis::tp);
  add(kv_replicas, false, Axis::tp);
  return result;
}

}  // namespace sft::mesh
