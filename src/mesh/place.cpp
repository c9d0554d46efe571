// SPDX-License-Identifier: Apache-2.0
#include "sft/mesh/place.hpp"

#include "sft/core/ensure.hpp"

namespace sft::mesh {

Layout layout_of(const config::Parallel& parallel) { return Layout(parallel.sizes()); }

Sharing sharing_of(const config::Parallel& parallel) {
  return {.is_sharded = parallel.zero_stage > 0, .reshard_size = parallel.reshard_size};
}

Place::Place(const Layout& layout, int rank, const Sharing& sharing)
    : layout_(layout), coordinates_(layout.coordinates(rank)), sharing_(sharing) {
  SFT_ENSURE(rank >= 0, "a rank of the mesh");
  SFT_ENSURE(rank < layout.size(), "a rank of the mesh");
  SFT_ENSURE(fsdp_size() % reshard_size() == 0, "reshard_size divides dp_shard x sp");
}

Place::Place(const config::ValidConfig& config, int rank)
    : Place(layout_of(config->parallel), rank, sharing_of(config->parallel)) {}

Place Place::with_copies() const {
  Place result = *this;
  result.sharing_ = {.is_sharded = false};
  return result;
}

}  // namespace sft::mesh
