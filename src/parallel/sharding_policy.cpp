// SPDX-License-Identifier: Apache-2.0
#include "sft/parallel/sharding_policy.hpp"

namespace sft::parallel {

ShardingPolicy sharding_policy(const config::Parallel& parallel, const mesh::Place& place) {
  const bool is_sharded = place.fsdp_size() > 1;
  return {.parameters = is_sharded,
          .gradients = is_sharded,
          .optimizer_state = is_sharded,
          .reshard_after_forward = parallel.reshard_after_forward};
}

}  // namespace sft::parallel
