// SPDX-License-Identifier: Apache-2.0
#include "sft/rank/memory_table.hpp"

#include <fmt/core.h>
#include <algorithm>
#include <cstdint>
#include <span>

#include "sft/core/format.hpp"
#include "sft/core/table.hpp"

namespace sft::rank {

MemoryRows memory_rows(const device::Ledger& ledger, device::Kind kind) {
  MemoryRows rows{};
  for (std::size_t i = 0; i < device::num_labels; ++i) rows[i] = ledger.bytes(static_cast<device::Label>(i));
  const std::size_t all = ledger.total_bytes(), on_node = ledger.node_bytes(kind);
  rows[device::num_labels] = all;
  rows[device::num_labels + 1] = all - on_node;
  rows[device::num_labels + 2] = on_node;
  return rows;
}

MemoryRange& range_of(MemoryTable& table, std::size_t row) {
  if (row < device::num_labels) return table.labels[row];
  const std::array<MemoryRange*, 3> sums{&table.total, &table.on_gpu, &table.on_node};
  return *sums[row - device::num_labels];
}

MemoryTable gather_memory(const device::Ledger& ledger, device::Kind kind, const comm::Group& world) {
  const MemoryRows rows = memory_rows(ledger, kind);
  std::array<std::int64_t, 2 * num_memory_rows> extremes{};  // -bytes, then bytes: one maximum gives both ends
  for (std::size_t i = 0; i < num_memory_rows; ++i) {
    extremes[i] = -static_cast<std::int64_t>(rows[i]);
    extremes[num_memory_rows + i] = static_cast<std::int64_t>(rows[i]);
  }
  world.max(std::span<std::int64_t>(extremes));
  std::array<std::int64_t, num_memory_rows> distances{};  // from the end of the world to the first rank with the most
  for (std::size_t i = 0; i < num_memory_rows; ++i) {
    const bool has_most = static_cast<std::int64_t>(rows[i]) == extremes[num_memory_rows + i];
    distances[i] = has_most ? world.size() - world.rank() : 0;
  }
  world.max(std::span<std::int64_t>(distances));
  MemoryTable table;
  for (std::size_t i = 0; i < num_memory_rows; ++i) {
    range_of(table, i) = {static_cast<std::size_t>(-extremes[i]),
                          static_cast<std::size_t>(extremes[num_memory_rows + i]),
                          WorldRank::from(world.size() - static_cast<int>(distances[i]))};
  }
  return table;
}

std::string format_memory(const MemoryTable& table) {
  Table text({Align::left, Align::right, Align::right, Align::left}, 2);
  text.add({"memory per rank", "least", "most", ""});
  const auto add = [&](const char* label, const MemoryRange& range) {
    const std::string least = format_bytes(range.least_bytes), most = format_bytes(range.most_bytes);
    text.add({label, least, most, least == most ? "" : fmt::format("rank {}", range.most_rank)});
  };
  for (std::size_t i = 0; i < device::num_labels; ++i) {
    add(device::name_of(static_cast<device::Label>(i)), table.labels[i]);
  }
  add("total", table.total);
  if (table.on_gpu.most_bytes > 0) {
    add("on the GPU", table.on_gpu);
    add("on the node", table.on_node);
  }
  if (table.nodes.most_bytes > table.on_node.most_bytes) add("all of a node", table.nodes);
  return text.text();
}

}  // namespace sft::rank
