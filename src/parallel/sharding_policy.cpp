// SPDX-License-Identifier: Apache-2.0
#include "sft/parallel/sharding_policy.hpp"

namespace sft::parallel {

namespace {

int reshard_size(const config::Parallel& parallel, const mesh::Place& place) {
  if (!parallel.reshard_after_forward) return 1;
  return place.reshard_size() < place.fsdp_size() ? place.reshard_size() : 0;
}

}  // namespace

ShardingPolicy sharding_policy(const config::Parallel& parallel, const mesh::Place& place, bool offloads_parameters) {
  const bool is_sharded = place.fsdp_size() > 1, is_stage_3 = parallel.zero_stage >= 3;
  return {.parameters = is_stage_3 && (is_sharded || offloads_parameters),
          .gradients = is_sharded && parallel.zero_stage >= 2,
          .optimizer_state = is_sharded,
          .parameters_on_host = is_stage_3 && offloads_parameters,
          .reshard_size = reshard_size(parallel, place)};
}

mesh::Place place_of_frozen(const ShardingPolicy& policy, const mesh::Place& place) {
  return policy.parameters ? place : place.with_copies();
}

}  // namespace sft::parallel
