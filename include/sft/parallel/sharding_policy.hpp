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
/// Sharded parameters are gathered before each use (ShardedUnits::gather) into buffers that several units share
/// (UnitBuffers); whole ones would be stored whole (UnitStorage) and gathered once a step, behind the optimizer.
/// Sharded gradients are reduced once per micro-batch (ShardedUnits::reduce), whole ones would be once a step. There
/// are stage 3 and, with one rank in the group, stage 0; stages 1 and 2 are not there yet.
struct ShardingPolicy {
  bool parameters = false, gradients = false, optimizer_state = false;
  /// Blocks are released between forward and backward pass and gathered again (FSDP, Zhao et al. 2023).
  bool reshard_after_forward = true;
};

/// The policy of a validated configuration.
[[nodiscard]] ShardingPolicy sharding_policy(const config::Parallel& parallel, const mesh::Place& place);

}  // namespace sft::parallel
