#include "sft/train/memory.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <span>

#include "rank_plan.hpp"
#include "sft/checkpoint/checkpoint.hpp"
#include "sft/core/error.hpp"
#include "sft/data/loader.hpp"
#include "sft/device/format_bytes.hpp"
#include "sft/device/process_memory.hpp"
#include "sft/train/loader_plan.hpp"
#include "sft/train/run_length.hpp"

namespace sft::train {

namespace {

constexpr std::size_t num_rows = device::num_labels + 1;  ///< the labels and the total

/// A rank's bytes, label by label, then their sum.
std::array<std::size_t, num_rows> rows_of(const device::Ledger& ledger) {
  std::array<std::size_t, num_rows> rows{};
  for (std::size_t i = 0; i < device::num_labels; ++i) rows[i] = ledger.bytes(static_cast<device::Label>(i));
  rows.back() = ledger.total_bytes();
  return rows;
}

MemoryRange& range_of(MemoryTable& table, std::size_t row) {
  return row < device::num_labels ? table.labels[row] : table.total;
}

std::string format_row(const char* label, const std::string& least, const std::string& most) {
  std::array<char, 64> line{};
  std::snprintf(line.data(), line.size(), "  %-16s %12s %12s\n", label, least.c_str(), most.c_str());
  return line.data();
}

}  // namespace

device::Ledger plan_ledger(const config::Config& config, const data::PackedDataset& dataset, const mesh::Place& place,
                           const Machine& machine, std::size_t process_bytes) {
  using device::Label;
  using device::Space;
  device::Ledger ledger;
  RankPlan plan(config, dataset.max_length(), place, machine);
  RankPlan::Arenas sizes = plan.measure();
  for_each_arena(sizes, [&](Label label, Space space, const device::Arena& arena) {
    ledger.add(label, space, arena.used_bytes());
  });
  const data::LoaderPlan batches = loader_plan(config, place, 0, num_steps(config, dataset.num_rows()));
  ledger.add(Label::batches, Space::host, data::loader_bytes(dataset, batches));
  ledger.add(
      Label::process, Space::host,
      process_bytes + device::later_process_bytes + checkpoint::index_memory_bytes(place, plan.shard_map));
  return ledger;
}

MemoryTable plan_memory(const config::Config& config, const data::PackedDataset& dataset, const Machine& machine,
                        std::size_t process_bytes) {
  MemoryTable table;
  const mesh::Place first(config, 0);
  for (int rank = 0; rank < first.layout().size(); ++rank) {
    const auto rows = rows_of(plan_ledger(config, dataset, first.peer(rank), machine, process_bytes));
    for (std::size_t i = 0; i < num_rows; ++i) {
      MemoryRange& range = range_of(table, i);
      range.least_bytes = rank == 0 ? rows[i] : std::min(range.least_bytes, rows[i]);
      if (rank == 0 || rows[i] > range.most_bytes) range = {range.least_bytes, rows[i], rank};
    }
  }
  return table;
}

MemoryTable gather_memory(const device::Ledger& ledger, const comm::Group& world) {
  const auto rows = rows_of(ledger);
  std::array<std::int64_t, 2 * num_rows> extremes{};  // -bytes, then bytes: one maximum gives both ends
  for (std::size_t i = 0; i < num_rows; ++i) {
    extremes[i] = -static_cast<std::int64_t>(rows[i]);
    extremes[num_rows + i] = static_cast<std::int64_t>(rows[i]);
  }
  world.max(std::span<std::int64_t>(extremes));
  std::array<std::int64_t, num_rows> distances{};  // from the end of the world to the first rank with the most
  for (std::size_t i = 0; i < num_rows; ++i) {
    const bool has_most = static_cast<std::int64_t>(rows[i]) == extremes[num_rows + i];
    distances[i] = has_most ? world.size() - world.rank() : 0;
  }
  world.max(std::span<std::int64_t>(distances));
  MemoryTable table;
  for (std::size_t i = 0; i < num_rows; ++i) {
    range_of(table, i) = {static_cast<std::size_t>(-extremes[i]), static_cast<std::size_t>(extremes[num_rows + i]),
                          world.size() - static_cast<int>(distances[i])};
  }
  return table;
}

std::string format_memory(const MemoryTable& table) {
  using device::format_bytes;
  std::string text = format_row("memory per rank", "least", "most");
  for (std::size_t i = 0; i < device::num_labels; ++i) {
    const MemoryRange& range = table.labels[i];
    text += format_row(device::name_of(static_cast<device::Label>(i)), format_bytes(range.least_bytes),
                       format_bytes(range.most_bytes));
  }
  text += format_row("total", format_bytes(table.total.least_bytes), format_bytes(table.total.most_bytes));
  if (table.total.most_bytes > table.total.least_bytes) {
    text += "  (most: rank " + std::to_string(table.total.most_rank) + ")\n";
  }
  return text;
}

void require_node_memory(const device::Ledger& ledger, device::Kind kind, std::size_t node_bytes,
                         const comm::Group& node) {
  std::array<std::int64_t, 1> needed{static_cast<std::int64_t>(ledger.node_bytes(kind))};
  node.sum(std::span<std::int64_t>(needed));
  const auto needed_bytes = static_cast<std::size_t>(needed[0]);
  if (needed_bytes <= node_bytes) return;
  throw_config_error(
      "the " + std::to_string(node.size()) + (node.size() == 1 ? " rank" : " ranks") + " of this node need " +
          device::format_bytes(needed_bytes) + " of memory",
      "it has " + device::format_bytes(node_bytes) + ", its RAM or the limit of its control group",
      "raise dp_shard_size, tp_size or sp_size over more nodes, or lower train.per_device_train_batch_size or the "
      "max_length of the data; `sft INPUT.ini --dry-run --num_ranks N` shows what another mesh needs");
}

}  // namespace sft::train
