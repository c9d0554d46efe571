// SPDX-License-Identifier: Apache-2.0
#pragma once
// `sft --check INPUT.ini`: tries the machine on the mesh of a run, before it starts.

#include "sft/comm/collectives.hpp"
#include "sft/comm/session.hpp"
#include "sft/config/valid_config.hpp"
#include "sft/device/device.hpp"
#include "sft/mesh/groups.hpp"
#include "sft/mesh/place.hpp"

namespace sft::check {

/// A run after its first steps. All outlive the check.
struct CheckedMachine {
  const comm::Session& session;
  const config::ValidConfig& config;
  device::Device& device;
  const mesh::Place& place;
  const mesh::Groups& groups;
  comm::Collectives& collectives;
  comm::Transport::Way way;  ///< in which the collectives send
};

/// Prints the mesh, what its ranks compute on, and the rates that the network's adapters promise; makes every
/// collective of every group, and throws an Error (failure) on every rank where one is wrong; prints how fast they are
/// and which rank is slowest, in these and in matrix products. Collective over the world; takes seconds.
void check_machine(const CheckedMachine& machine);

}  // namespace sft::check
