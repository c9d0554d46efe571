// SPDX-License-Identifier: Apache-2.0
#pragma once
// Whole or sharded: which of parameters, gradients and optimizer state are sharded, over which axes, and what is
// resharded between the passes. The one place that decides it; all others ask. Pure.

#include "sft/config/config.hpp"
#include "sft/core/axis.hpp"
#include "sft/mesh/groups.hpp"

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
/// sharded, whatever the stage, but for parameters_on_host.
struct ShardingPolicy {
  bool parameters = false, gradients = false, optimizer_state = false;
  /// GPUs keep the rank shard of the parameters in the memory of their node (offload_parameters = host): at stage 3,
  /// and on one rank too, where parameters then are treated as if sharded: the GPU holds the units at hand alone.
  bool parameters_on_host = false;
  config::Reshard reshard = config::Reshard::always;  ///< of sharded parameters
  int reshard_size = 1;                               ///< ranks of a group with to_groups: fewer than of fsdp

  /// Over which axes the rank shard is cut of trainable parameters, with their gradients and optimizer state: over none
  /// where each rank stores whole ones. The groups of the mesh are made for these (sharing_of).
  [[nodiscard]] AxisSet trainable_axes() const { return optimizer_state ? fsdp_axes : AxisSet{}; }
  /// The same of frozen parameters: they are stored whole where they need not be gathered for each use.
  [[nodiscard]] AxisSet frozen_axes() const { return parameters ? fsdp_axes : AxisSet{}; }
};

/// The policy that [parallel] of a ValidConfig asks for. `offloads_parameters`: from GPUs to the memory of their nodes.
[[nodiscard]] ShardingPolicy sharding_policy(const config::Parallel& parallel, bool offloads_parameters = false);

/// The groups that it needs, of a model whose key/value heads lie on `kv_replicas` ranks each.
[[nodiscard]] mesh::Sharing sharing_of(const ShardingPolicy& policy, int kv_replicas);

}  // namespace sft::parallel
