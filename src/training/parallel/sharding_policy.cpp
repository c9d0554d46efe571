// SPDX-License-Identifier: Apache-2.0
#include "sft/parallel/sharding_policy.hpp"

#include "sft/core/ensure.hpp"

namespace sft::parallel {

using config::Reshard;

ShardingPolicy sharding_policy(const config::Parallel& parallel, bool offloads_parameters) {
  const int fsdp_size = num_ranks(parallel.sizes(), fsdp_axes);
  const bool is_sharded = parallel.zero_stage > 0 && fsdp_size > 1, is_stage_3 = parallel.zero_stage >= 3;
  ShardingPolicy policy{.parameters = is_stage_3 && (is_sharded || offloads_parameters),
                        .gradients = is_sharded && parallel.zero_stage >= 2,
                        .optimizer_state = is_sharded,
                        .parameters_on_host = is_stage_3 && offloads_parameters,
                        .reshard = parallel.reshard_after_forward};
  if (num_ranks(parallel.sizes(), replica_axes) > 1) policy.reduced = parallel.reduce_dtype;
  if (policy.reshard == Reshard::to_groups) {
    const bool is_part = parallel.reshard_size < fsdp_size;  // a group of all of them is none
    policy.reshard = is_part ? Reshard::to_groups : Reshard::always;
    policy.reshard_size = is_part ? parallel.reshard_size : 1;
  }
  return policy;
}

mesh::Sharing sharing_of(const ShardingPolicy& policy, int kv_replicas) {
  return {.shard_axes = policy.shard_axes(/*has_gradient=*/true),
          .reshard_size = policy.reshard_size,
          .kv_replicas = kv_replicas};
}

IndexedVector<PartIndex, Part> make_parts(const IndexedVector<PartIndex, PartUnits>& model, const mesh::Place& place,
                                          const ShardingPolicy& policy, DType compute, MasterWeights master) {
  IndexedVector<PartIndex, Part> parts;
  for (const PartUnits& part : model) {
    SFT_ENSURE(!part.four_bits || !part.has_gradient, "what is trained is not kept in 4 bits");
    SFT_ENSURE(!part.in_fp8 || !(part.four_bits || part.in_float32), "8-bit floats are made of what is computed in");
    const bool has_master = part.has_gradient && master != MasterWeights::none;
    const AxisSet shard_axes = policy.shard_axes(part.has_gradient, part.of_experts);
    parts.push_back({.shard_map = ShardMap(part.units, place, shard_axes),
                     .stored = part.four_bits                  ? DType::uint8
                               : has_master || part.in_float32 ? DType::float32
                                                               : compute,
                     .gathered = part.in_float32 ? DType::float32 : compute,
                     .has_gradient = part.has_gradient,
                     .is_in_file = has_master && master == MasterWeights::in_file && !part.in_float32,
                     .of_experts = part.of_experts,
                     .groups = part.of_experts ? groups_of_experts : PartGroups{},
                     .four_bits = part.four_bits,
                     .in_float32 = part.in_float32,
                     .in_fp8 = place.size(shard_axes) > 1 && !policy.parameters_on_host ? part.in_fp8 : std::nullopt});
  }
  return parts;
}

}  // namespace sft::parallel
