// SPDX-License-Identifier: Apache-2.0
#include "sft/rank/save_time.hpp"

#include <fmt/core.h>

#include "sft/checkpoint/save.hpp"
#include "sft/checkpoint/snapshot.hpp"
#include "sft/core/format.hpp"
#include "sft/rank/rank_plan.hpp"

namespace sft::rank {

SaveTime save_time(const std::vector<checkpoint::Entry>& entries) {
  SaveTime time{.bytes = checkpoint::saved_bytes(entries)};
  const checkpoint::WritePlan plan(entries);
  for (const checkpoint::EntryWrites& writes : plan.entries()) time.bytes_of_rank += writes.num_bytes();
  return time;
}

SaveTime plan_save(const config::ValidConfig& config, const Datasets& datasets, const Machine& machine) {
  RankPlan first(config, datasets.limits(config), mesh::Place(config, 0), machine);
  static_cast<void>(first.measure());
  return save_time(first.saved_entries());
}

std::string describe(const SaveTime& save) {
  return fmt::format("{}, {} of a rank: {:.2g} s at {:.0f} MB/s of each rank", format_bytes(save.bytes),
                     format_bytes(save.bytes_of_rank), save.seconds(), assumed_write_bytes_per_s / 1e6);
}

}  // namespace sft::rank
