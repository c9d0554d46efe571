// SPDX-License-Identifier: Apache-2.0
#pragma once
// Whole or sharded: which of parameters, gradients and optimizer state are sharded, over which axes, and what is
// resharded between the passes. The one place that decides it; all others ask. Pure.

#include "sft/config/config.hpp"
#include "sft/core/axis.hpp"
#include "sft/mesh/groups.hpp"
#include "sft/parallel/part.hpp"

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
  config::Reshard reshard = config::Reshard::always;  ///< what becomes of sharded parameters between the passes
  int reshard_size = 1;                               ///< ranks of a group with to_groups: fewer than of fsdp
  /// In which sums of gradients over fsdp and replicate travel: float32 or bf16.
  DType reduced = DType::float32;

  /// Over which axes the rank shard of a part is cut. With gradients, as its optimizer state is: over none where each
  /// rank stores whole ones; the groups of the mesh are made for these axes (sharing_of). Without, it is stored whole
  /// where it need not be gathered for each use. Experts are cut over ep whatever is sharded.
  [[nodiscard]] AxisSet shard_axes(bool has_gradient, bool of_experts = false) const {
    if (!(has_gradient ? optimizer_state : parameters)) return {};
    return of_experts ? expert_fsdp_axes : fsdp_axes;
  }
};

/// The policy that [parallel] of a ValidConfig asks for. `offloads_parameters`: from GPUs to the memory of their nodes.
[[nodiscard]] ShardingPolicy sharding_policy(const config::Parallel& parallel, bool offloads_parameters = false);

/// The groups that the policy needs, for a model whose key/value heads lie on `kv_replicas` ranks each.
[[nodiscard]] mesh::Sharing sharing_of(const ShardingPolicy& policy, int kv_replicas);

/// The parts of a model as the rank at `place` has them. `compute`: the dtype of what ops read, float32 or bf16;
/// parameters without gradients are stored in it, constants in float32, those with gradients as `master` says. in_file
/// goes with bf16 alone. Codes of 8-bit floats are sent where several ranks have shards, and these on the device.
[[nodiscard]] IndexedVector<PartIndex, Part> make_parts(const IndexedVector<PartIndex, PartUnits>& model,
                                                        const mesh::Place& place, const ShardingPolicy& policy,
                                                        DType compute, MasterWeights master = MasterWeights::in_memory);

}  // namespace sft::parallel
