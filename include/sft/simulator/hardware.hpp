// SPDX-License-Identifier: Apache-2.0
#pragma once
// The machines that plans of time are for: what a file of machines says of one (share/sft/machines.ini is such a file).

#include <cstddef>
#include <string>
#include <vector>

#include "sft/device/kind.hpp"
#include "sft/mesh/layout.hpp"
#include "sft/simulator/clocked_collectives.hpp"
#include "sft/simulator/rates.hpp"

namespace sft::simulator {

/// Nodes that are alike, with a device a rank.
struct Hardware {
  std::string name;  ///< "h200x8x4"
  std::string description;
  device::Kind kind = device::Kind::cpu;
  int ranks_per_node = 1, num_nodes = 1;
  Rates rates;
  Network network;
  int compute_capability = 0;    ///< of a GPU, 10 * major + minor; 0: unknown
  int multiprocessors = 0;       ///< of a GPU; 0: unknown
  int memory_bus_bits = 0;       ///< the same
  double peak_flops_per_s = 0;   ///< of the maker's sheet, in bf16; 0: unknown
  std::size_t device_bytes = 0;  ///< memory of a GPU; 0 on CPUs
  std::size_t node_bytes = 0;    ///< memory of a node
  double write_bytes_per_s = 0;  ///< of checkpoints, of a node
  int cores_per_node = 0;        ///< of CPUs, which its ranks share; 0: each rank has its own
  double start_s = 0;            ///< from the launcher to the first step; 0: unknown

  [[nodiscard]] int num_ranks() const { return ranks_per_node * num_nodes; }
};

/// The machines of an .ini file, a section each. Throws a configuration Error that names `source`, the machine and the
/// key for what it cannot read. Pure.
[[nodiscard]] std::vector<Hardware> read_machines(const std::string& text, const std::string& source);

/// The machine of `name` among `known`, with as many devices and nodes as the name says: "h200x8x4" are 4 nodes of 8,
/// "h200x2" is one of 2, "h200" one as the file has it. Throws a configuration Error that lists those that there are.
/// Pure.
[[nodiscard]] Hardware find_machine(const std::string& name, const std::vector<Hardware>& known);

/// `machine` with so many ranks on each node: ranks of CPUs that share `cores_per_node` are faster or slower by it.
/// Pure.
[[nodiscard]] Hardware with_ranks_per_node(Hardware machine, int ranks_per_node);

/// The section of `machine`, which read_machines() reads back. Pure.
[[nodiscard]] std::string to_ini(const Hardware& machine);

/// Where the ranks of a group are, of which these are the numbers in the world. Pure.
[[nodiscard]] Span span_of(const std::vector<WorldRank>& ranks, int ranks_per_node);

}  // namespace sft::simulator
