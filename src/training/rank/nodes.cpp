// SPDX-License-Identifier: Apache-2.0
#include "sft/rank/nodes.hpp"

#include <fmt/format.h>
#include <array>
#include <cstdint>
#include <set>
#include <span>
#include <string_view>
#include <vector>

#include "sft/core/format.hpp"
#include "sft/ops/factory.hpp"

namespace sft::rank {

std::string describe_device(const device::Device& device) {
  const bool is_cpu = device.kind() == device::Kind::cpu;
  return is_cpu ? fmt::format("{}, {}", device.description(), ops::cpu_instruction_set()) : device.description();
}

IndexedVector<WorldRank, int> nodes_of_ranks(const comm::Session& session) {
  std::array<std::int64_t, 1> first_of_node{session.world().rank()};
  session.node().broadcast(std::span<std::int64_t>(first_of_node), 0);
  const std::vector<std::int64_t> nodes = session.world().all_gather(first_of_node);
  return IndexedVector<WorldRank, int>(std::vector<int>(nodes.begin(), nodes.end()));
}

std::string describe_nodes(const mesh::Layout& layout, const IndexedVector<WorldRank, int>& node_of_rank) {
  const std::set<int> nodes(node_of_rank.begin(), node_of_rank.end());
  std::string text = plural(static_cast<std::int64_t>(nodes.size()), "node");
  const AxisSet crosses = layout.axes_between_nodes(node_of_rank);
  std::vector<std::string_view> axes;
  for (const Axis axis : all_axes) {
    if (crosses.contains(axis)) axes.push_back(name_of(axis));
  }
  return axes.empty() ? text : fmt::format("{}; between them: {}", text, fmt::join(axes, ", "));
}

}  // namespace sft::rank
