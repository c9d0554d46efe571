// SPDX-License-Identifier: Apache-2.0
#pragma once
// The memory of all ranks as entered in their ledgers, in one table.

#include <array>
#include <cstddef>
#include <string>

#include "sft/comm/group.hpp"
#include "sft/core/axis.hpp"
#include "sft/device/kind.hpp"
#include "sft/device/ledger.hpp"

namespace sft::rank {

/// The least and the most bytes that a rank of a mesh uses, and the first rank with the most.
struct MemoryRange {
  std::size_t least_bytes = 0, most_bytes = 0;
  WorldRank most_rank = 0;
};
struct MemoryTable {
  std::array<MemoryRange, device::num_labels> labels;  ///< by device::Label
  MemoryRange total;
  MemoryRange on_gpu, on_node;  ///< of the total: in a GPU's own memory (zero on CPUs), and in the node's
  /// The range of nodes, each the sum of its ranks, where that is planned; most_rank is the first rank of the fullest
  /// node. Else zero.
  MemoryRange nodes;
};

/// The labels, the total, and what of it is on the GPU and on the node.
inline constexpr std::size_t num_memory_rows = device::num_labels + 3;
/// A rank's bytes, row by row.
using MemoryRows = std::array<std::size_t, num_memory_rows>;
/// The bytes of a rank that computes on a device of `kind`. Pure.
[[nodiscard]] MemoryRows memory_rows(const device::Ledger& ledger, device::Kind kind);
/// The range of a row. Pure.
[[nodiscard]] MemoryRange& range_of(MemoryTable& table, std::size_t row);

/// The ledgers of all ranks, which compute on devices of `kind`. Collective over `world`.
[[nodiscard]] MemoryTable gather_memory(const device::Ledger& ledger, device::Kind kind, const comm::Group& world);

/// A line for each label, and the total; with GPUs also how much of it lies where.
[[nodiscard]] std::string format_memory(const MemoryTable& table);

}  // namespace sft::rank
