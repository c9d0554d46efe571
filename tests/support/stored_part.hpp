// SPDX-License-Identifier: Apache-2.0
#pragma once
// The storage of a model that is one part, for tests of what works on one.

#include <utility>
#include <vector>

#include "sft/parallel/sharding_policy.hpp"
#include "sft/parallel/unit_storage.hpp"

namespace sft::test {

/// Parameters with gradients, as the rank at `place` stores them, sharded over fsdp or whole.
inline parallel::UnitStorage stored_part(std::vector<parallel::Unit> units, const mesh::Place& place,
                                         DType compute = DType::float32,
                                         parallel::MasterWeights master = parallel::MasterWeights::in_memory,
                                         bool is_sharded = true) {
  const parallel::ShardingPolicy policy{.optimizer_state = is_sharded};
  return std::move(
      parallel::storage_of(parallel::make_parts({{std::move(units)}}, place, policy, compute, master)).front());
}

}  // namespace sft::test
