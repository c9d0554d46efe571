// SPDX-License-Identifier: Apache-2.0
#include "sft/parallel/sharding_policy.hpp"

namespace sft::parallel {

namespace {

int reshard_size(const config::Parallel& parallel, const mesh::Place& place) {
  if (!parallel.reshard_after_forward) return 1;
  return place.reshard_size() < place.fsdp_size() ? place.reshard_size() : 0;
}

}  // namespace

ShardingPolicy sharding_policy(const config::Parallel& parallel, const mesh::Place& place) {
  const bool is_sharded = place.fsdp_size() > 1;
  return {.parameters = is_sharded && parallel.zero_stage >= 3,
          .gradients = is_sharded && parallel.zero_stage >= 2,
          .optimizer_state = is_sharded,
          .reshard_size = reshard_size(parallel, place)};
}

mesh::Place place_of_frozen(const ShardingPolicy& policy, const mesh::Place& place) {
  return policy.parameters ? place : place.with_copies();
}

}  // namespace sft::parallel
