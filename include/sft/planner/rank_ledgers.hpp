// SPDX-License-Identifier: Apache-2.0
#pragma once
// The ledgers of many ranks, without a plan for each: ranks of a kind share one.

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "sft/checkpoint/save.hpp"
#include "sft/config/valid_config.hpp"
#include "sft/device/ledger.hpp"
#include "sft/mesh/place.hpp"
#include "sft/parallel/shard_map.hpp"
#include "sft/rank/datasets.hpp"
#include "sft/rank/machine.hpp"
#include "sft/rank/memory_table.hpp"

namespace sft::planner {

/// Ledgers of the ranks of one mesh, each of them plan_ledger() of its rank. Ranks are of a kind where they hold the
/// same slices, their shards cut units of each shape alike, and they read as many rows ahead: all that sizes depend on,
/// but for the region of a checkpoint that each of those with the same shard writes, which is found for each rank. With
/// optimizers whose state follows rows, blocks or whole matrices, each shard is a kind. `config` and `datasets` outlive
/// it.
class RankLedgers {
 public:
  RankLedgers(const config::ValidConfig& config, const rank::Datasets& datasets, const rank::Machine& machine,
              std::size_t process_bytes);

  /// The ledger of rank place.rank(), the first of its node or not. Pure but for the data sets' facts.
  [[nodiscard]] device::Ledger of(const mesh::Place& place, bool is_first_of_node);
  /// How many ranks have been planned by themselves.
  [[nodiscard]] std::size_t num_kinds() const { return kinds_.size(); }

 private:
  /// A part whose parameters are trained, and a unit of each shape that it has.
  struct TrainedUnits {
    std::vector<parallel::Unit> shapes;
    AxisSet shard_axes;
  };
  struct Kind {
    device::Ledger ledger;                        ///< of a rank of this kind, without the copy of what it saves
    std::optional<checkpoint::WritePlan> writes;  ///< what it saves, where memory is planned for a copy
  };
  [[nodiscard]] std::vector<std::int64_t> key_of(const mesh::Place& place, bool is_first_of_node) const;
  [[nodiscard]] Kind plan(const mesh::Place& place, bool is_first_of_node) const;

  const config::ValidConfig& config_;
  const rank::Datasets& datasets_;
  rank::Machine machine_;
  std::size_t process_bytes_;
  std::vector<TrainedUnits> trained_;
  std::map<std::vector<std::int64_t>, Kind> kinds_;
};

/// plan_ledger() of every rank of the mesh, on nodes of so many ranks, worked out on one rank.
[[nodiscard]] rank::MemoryTable plan_memory(const config::ValidConfig& config, const rank::Datasets& datasets,
                                            const rank::Machine& machine, std::size_t process_bytes,
                                            int ranks_per_node);
/// plan_memory() with all ranks on one node.
[[nodiscard]] rank::MemoryTable plan_memory(const config::ValidConfig& config, const rank::Datasets& datasets,
                                            const rank::Machine& machine, std::size_t process_bytes);

}  // namespace sft::planner
