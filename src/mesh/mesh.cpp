#include "sft/mesh/mesh.hpp"

#include <string>

#include "sft/core/error.hpp"

namespace sft::mesh {

Mesh::Mesh(const comm::Session& session, const Layout& layout_in, int num_kv_heads)
    : layout(layout_in), coordinates(layout_in.coordinates(session.world().rank())), world(session.world()) {
  if (layout.size() != world.size()) {
    throw_config_error("the mesh " + layout.describe() + " has " + std::to_string(layout.size()) + " ranks",
                       "the program runs on " + std::to_string(world.size()),
                       "make the product of the sizes the number of ranks");
  }
  const comm::Group grid = session.make_cartesian(layout.sizes());
  replicate = comm::cartesian_group(grid, {true, false, false, false}, "dp_replicate");
  shard = comm::cartesian_group(grid, {false, true, false, false}, "dp_shard");
  sp = comm::cartesian_group(grid, {false, false, true, false}, "sp");
  tp = comm::cartesian_group(grid, {false, false, false, true}, "tp");
  data = comm::cartesian_group(grid, {true, true, false, false}, "data");
  fsdp = comm::cartesian_group(grid, {false, true, true, false}, "fsdp");
  model = comm::cartesian_group(grid, {false, false, true, true}, "model");
  parameters = comm::cartesian_group(grid, {false, true, true, true}, "parameters");
  tokens = comm::cartesian_group(grid, {true, true, true, false}, "tokens");
  const int num_replicas = num_kv_heads < layout.tp ? layout.tp / num_kv_heads : 1;
  kv_replicas = tp.split(tp.rank() / num_replicas, tp.rank(), "kv_replicas");
}

}  // namespace sft::mesh
