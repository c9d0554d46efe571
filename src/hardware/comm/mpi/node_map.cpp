// SPDX-License-Identifier: Apache-2.0
#include "node_map.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <map>
#include <span>
#include <string_view>

#include "sft/core/error.hpp"
#include "sft/core/log.hpp"

namespace sft::comm {

namespace {

/// How many ranks each node is to have.
std::vector<int> parse_sizes(std::string_view text) {
  std::vector<int> sizes;
  for (const char *begin = text.data(), *const end = begin + text.size();; ++begin) {
    const auto [stop, error] = std::from_chars(begin, end, sizes.emplace_back());
    if (error != std::errc() || sizes.back() < 1 || (stop != end && *stop != ',')) {
      throw_config_error(fmt::format("SFT_PRETEND_NODES = `{}` cannot be used", text),
                         "it is no list of numbers of ranks, such as 4,4", "unset it: it is for tests");
    }
    if (stop == end) return sizes;
    begin = stop;
  }
}

/// The node that a rank of the world is to take itself for.
int pretended_node(std::string_view text, int world_rank) {
  int node = 0, end = 0;
  for (const int size : parse_sizes(text)) {
    end += size;
    if (world_rank < end) return node;
    ++node;
  }
  return node;
}

}  // namespace

Group split_by_node(const Group& group, const std::string& name) {
  const Group::Impl& impl = group.impl();
  MPI_Comm part = MPI_COMM_NULL;
  if (const char* sizes = std::getenv("SFT_PRETEND_NODES"); sizes != nullptr) {
    impl.check(MPI_Comm_split(impl.communicator, pretended_node(sizes, log_rank()), impl.rank, &part),
               "MPI_Comm_split");
  } else {
    impl.check(MPI_Comm_split_type(impl.communicator, MPI_COMM_TYPE_SHARED, impl.rank, MPI_INFO_NULL, &part),
               "MPI_Comm_split_type");
  }
  return make_group(part, name);
}

NodeMap::NodeMap(const std::vector<std::int64_t>& mark_of_rank) {
  std::map<std::int64_t, int> node_of_mark;
  for (const std::int64_t mark : mark_of_rank) {
    const auto found = node_of_mark.try_emplace(mark, num_nodes()).first;
    if (found->second == num_nodes()) ranks_.emplace_back();
    std::vector<int>& ranks = ranks_[found->second];
    number_on_node_.push_back(static_cast<int>(ranks.size()));
    ranks.push_back(static_cast<int>(node_of_rank_.size()));
    node_of_rank_.push_back(found->second);
  }
}

std::size_t NodeMap::most_ranks_on_a_node() const {
  return std::ranges::max(ranks_, {}, [](const auto& ranks) { return ranks.size(); }).size();
}

int NodeMap::agent(int node, int owner) const {
  const std::vector<int>& ranks = ranks_[node];
  return ranks[number_on_node_[owner] % ranks.size()];
}

std::vector<int> NodeMap::owners_of(int rank, int node) const {
  std::vector<int> owners;
  for (const int owner : ranks_[node]) {
    if (agent(node_of(rank), owner) == rank) owners.push_back(owner);
  }
  return owners;
}

NodeMap map_nodes(const Group& group, const Group& neighbours) {
  std::int64_t first_rank = group.rank();
  neighbours.broadcast(std::span(&first_rank, 1), 0);
  return NodeMap(group.all_gather(std::span<const std::int64_t>(&first_rank, 1)));
}

}  // namespace sft::comm
