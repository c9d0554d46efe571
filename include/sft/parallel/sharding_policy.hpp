// SPDX-License-Identifier: Apache-2.0
#pragma once
// When a unit is whole: which of parameters, gradients and optimizer state are sharded. Pure.

#include "sft/config/config.hpp"
#include "sft/mesh/place.hpp"

namespace sft::parallel {

/// The stages of ZeRO (Rajbhandari et al. 2020) over the fsdp group:
///
///   stage  optimizer_state  gradients  parameters
///     0         whole         whole      whole
///     1        sharded        whole      whole
///     2        sharded       sharded     whole
///     3        sharded       sharded    sharded
///
/// Sharded parameters are gathered before each use (ShardedUnits) into buffers that several units share (UnitBuffers);
/// whole ones are gathered once a step, behind the optimizer. Sharded gradients are reduced once per micro-batch, whole
/// ones once a step. Master weights are sharded with the optimizer state. With one rank in the group nothing is
/// sharded, whatever the stage, but for parameters_on_host; stage 0 is that: its fsdp group has one rank
/// (mesh::Sharing).
struct ShardingPolicy {
  bool parameters = false, gradients = false, optimizer_state = false;
  /// GPUs keep the rank shard of the parameters in the memory of their node (offload_parameters = host): at stage 3,
  /// and on one rank too, where parameters then are treated as if sharded: the GPU holds the units at hand alone.
  bool parameters_on_host = false;
  /// How many neighbours keep a unit of sharded parameters whole between its forward and its backward pass. 0: none,
  /// all ranks gather it again (FSDP, Zhao et al. 2023); 1: every rank keeps all of it; N: each keeps 1/N of it, and N
  /// ranks gather it among themselves.
  int reshard_size = 0;
};

/// The policy that [parallel] of a ValidConfig asks for. `offloads_parameters`: from GPUs to the memory of their nodes.
[[nodiscard]] ShardingPolicy sharding_policy(const config::Parallel& parallel, const mesh::Place& place,
                                             bool offloads_parameters = false);

/// Where frozen parameters lie on the rank at `place`: stored whole where they need not be gathered for each use.
[[nodiscard]] mesh::Place place_of_frozen(const ShardingPolicy& policy, const mesh::Place& place);

}  // namespace sft::parallel
