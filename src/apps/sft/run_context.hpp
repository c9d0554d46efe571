// SPDX-License-Identifier: Apache-2.0
#pragma once
// A run after its first steps: its device and its mesh are there, its data and its memory are not.

#include <memory>

#include "sft/comm/collectives.hpp"
#include "sft/comm/session.hpp"
#include "sft/comm/watch.hpp"
#include "sft/config/valid_config.hpp"
#include "sft/device/device.hpp"
#include "sft/mesh/groups.hpp"
#include "sft/mesh/place.hpp"

namespace sft::apps {

/// All that is referred to outlives it.
struct RunContext {
  comm::Session& session;
  const config::ValidConfig& config;  ///< as given: what is `auto` in it is not settled
  device::Device& device;
  const comm::Transport& transport;
  comm::Watch& watch;
  const mesh::Place& place;
  const mesh::Groups& groups;

  /// Over all groups of the mesh. Collective over the world.
  [[nodiscard]] std::unique_ptr<comm::Collectives> make_collectives() const;
};

}  // namespace sft::apps
