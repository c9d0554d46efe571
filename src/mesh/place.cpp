// SPDX-License-Identifier: Apache-2.0
#include "sft/mesh/place.hpp"

#include "sft/core/ensure.hpp"

namespace sft::mesh {

Layout layout_of(const config::Parallel& parallel) { return Layout(parallel.sizes()); }

Place::Place(const Layout& layout, int rank) : layout_(layout), coordinates_(layout.coordinates(rank)) {
  SFT_ENSURE(rank >= 0, "a rank of the mesh");
  SFT_ENSURE(rank < layout.size(), "a rank of the mesh");
}

Place::Place(const config::ValidConfig& config, int rank) : Place(layout_of(config->parallel), rank) {}

}  // namespace sft::mesh
