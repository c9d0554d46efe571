// SPDX-License-Identifier: Apache-2.0
#include "sft/plan/save_time.hpp"

#include <algorithm>

#include "sft/plan/rank_plan.hpp"

namespace sft::plan {

namespace {

/// What a rank writes of numbers of `dtype` that lie as `layout` says: float32, or codes.
std::uint64_t owned_bytes(const parallel::StoredLayout& layout, const parallel::ShardMap& shard_map, DType dtype) {
  std::int64_t num_elements = 0;
  for (const parallel::StoredPart& part : layout.parts(shard_map)) {
    if (part.is_owner) num_elements += part.where.num_rows * part.where.num_columns;
  }
  return static_cast<std::uint64_t>(num_elements) * size_of(dtype == DType::uint8 ? dtype : DType::float32);
}

std::uint64_t bytes_of_rank(RankPlan& plan) {
  static_cast<void>(plan.measure());
  std::uint64_t bytes = owned_bytes(parallel::as_parameters(), plan.shard_map, DType::float32);
  for (const optim::StateEntry& kept : plan.optimizer->state()) {
    const DType dtype = kept.in_file == nullptr ? kept.tensor.dtype : kept.in_file->dtype();
    bytes += owned_bytes(*kept.layout, plan.shard_map, dtype);
  }
  return bytes;
}

}  // namespace

SaveTime plan_save(const config::ValidConfig& config, const Datasets& datasets, const Machine& machine) {
  SaveTime time;
  const mesh::Place first(config, 0);
  for (int rank = 0; rank < first.layout().size(); ++rank) {
    RankPlan plan(config, datasets.limits(config), first.peer(rank), machine);
    if (!plan.place.owns_shard(plan.shard_map.shard_axes())) continue;
    const std::uint64_t bytes = bytes_of_rank(plan);
    time.bytes += bytes;
    time.most_bytes_of_rank = std::max(time.most_bytes_of_rank, bytes);
  }
  return time;
}

}  // namespace sft::plan
