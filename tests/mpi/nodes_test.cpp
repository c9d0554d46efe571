// SPDX-License-Identifier: Apache-2.0
// Collectives of groups on several nodes, which are pretended: what arrives, in which order sums are made, and how many
// messages that takes.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "comm/mpi/node_map.hpp"
#include "message_count.hpp"
#include "sft/core/dtype.hpp"
#include "support/barrier.hpp"
#include "support/collectives_fixture.hpp"
#include "window_faults.hpp"

namespace sft::test {

namespace {

using comm::MemoryUse;
using comm::ReduceOp;

/// The ranks of the world are on nodes with so many each.
class PretendedNodes {
 public:
  explicit PretendedNodes(const std::vector<int>& sizes) {
    std::string text;
    for (const int size : sizes) text += (text.empty() ? "" : ",") + std::to_string(size);
    ::setenv("SFT_PRETEND_NODES", text.c_str(), 1);
  }
  ~PretendedNodes() { ::unsetenv("SFT_PRETEND_NODES"); }
  PretendedNodes(const PretendedNodes&) = delete;
  PretendedNodes& operator=(const PretendedNodes&) = delete;
};

const std::vector<std::int64_t> piece_counts = {1, 7, 1000, 16'385, 70'001};

struct Nodes : CollectivesFixture {
  /// Every way to put the ranks on nodes that is tried: at least two nodes, one of them with several ranks.
  [[nodiscard]] std::vector<std::vector<int>> layouts() const {
    std::vector<std::vector<int>> all;
    if (size >= 3) all.push_back({1, size - 1});
    if (size >= 4) all.push_back({size - size / 2, size / 2});
    if (size >= 4) all.push_back(std::vector<int>(static_cast<std::size_t>((size + 1) / 2), 2));
    if (size >= 8) all.push_back({3, 5});
    return all;
  }

  /// The world in its own order, and with the ranks of odd number first, so that nodes have none in a row.
  [[nodiscard]] std::vector<comm::Group> groups() const {
    return {world, world.split(0, (rank % 2 == 0 ? size : 0) + rank, "mixed")};
  }

  template <class Test>
  void on_all_nodes(const Test& test) {
    for (const std::vector<int>& sizes : layouts()) {
      const PretendedNodes nodes(sizes);
      for (const comm::Group& group : groups()) {
        const comm::NodeMap map = comm::map_nodes(group, comm::split_by_node(group, "node"));
        BOOST_REQUIRE(map.num_nodes() > 1);
        BOOST_TEST_CONTEXT(group.name() << " on " << map.num_nodes() << " nodes, the first with "
                                        << map.ranks_on(0).size()) {
          test(group, map);
        }
        barrier(group);
      }
    }
  }

  device::Device::Block allocate(const comm::Group& group, MemoryUse use, std::int64_t num_bytes) {
    device::Device::Block block = collectives->allocate_shared(group, use, static_cast<std::size_t>(num_bytes));
    BOOST_REQUIRE((block != nullptr));
    return block;
  }

  /// What the nodes add up to where rank r has value(r): ranks of a node first, then the nodes.
  template <class T, class Value>
  static T sum_over_nodes(const comm::NodeMap& map, const Value& value) {
    T total{};
    for (int node = 0; node < map.num_nodes(); ++node) {
      T sum{};
      for (const int r : map.ranks_on(node)) sum = r == map.ranks_on(node).front() ? value(r) : sum + value(r);
      total = node == 0 ? sum : total + sum;
    }
    return total;
  }

  template <class T>
  void check_all_reduce(const comm::Group& group, const comm::NodeMap& map, const Tensor& x, ReduceOp op) {
    const std::vector<T> own = noise_vector<T>(group.rank(), x.num_elements());
    std::memcpy(x.data, own.data(), x.size_bytes());
    collectives->all_reduce(group, x, op, *stream);
    stream->synchronize();
    std::int64_t num_wrong = 0;
    for (std::int64_t i = 0; i < x.num_elements(); ++i) {
      const auto value = [i](int r) { return static_cast<T>(noise(r, i)); };
      T expected = sum_over_nodes<T>(map, value);
      if (op == ReduceOp::max) {
        for (int r = 0; r < group.size(); ++r) expected = r == 0 ? value(r) : std::max(expected, value(r));
      }
      num_wrong += x.as<T>()[i] != expected;
    }
    BOOST_TEST(num_wrong == 0, name_of(x.dtype) << " x " << x.num_elements());
    barrier(group);
  }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(nodes)

BOOST_AUTO_TEST_CASE(ranks_have_agents_on_every_node) {
  const comm::NodeMap map({7, 7, 7, 2, 2, 2, 2, 2});
  BOOST_TEST(map.num_nodes() == 2);
  BOOST_TEST(map.most_ranks_on_a_node() == 5U);
  BOOST_TEST(map.node_of(2) == 0);
  BOOST_TEST(map.node_of(3) == 1);
  BOOST_TEST(map.agent(0, 1) == 1);
  BOOST_TEST(map.agent(1, 1) == 4);
  BOOST_TEST(map.agent(0, 7) == 1);  // the fifth of its node, modulo 3
  BOOST_TEST(map.owners_of(1, 1) == (std::vector<int>{4, 7}), boost::test_tools::per_element());
  BOOST_TEST(map.owners_of(1, 0) == (std::vector<int>{1}), boost::test_tools::per_element());
  BOOST_TEST(map.owners_of(7, 0).empty());
  const comm::NodeMap mixed({1, 0, 1, 0});
  BOOST_TEST(mixed.ranks_on(1) == (std::vector<int>{1, 3}), boost::test_tools::per_element());
  BOOST_TEST(mixed.number_on_node(2) == 1);
}

BOOST_FIXTURE_TEST_CASE(what_is_no_list_of_nodes_is_refused, Nodes) {
  for (const char* text : {"4,x", "0", "4,,4", "-1"}) {
    ::setenv("SFT_PRETEND_NODES", text, 1);
    BOOST_CHECK_THROW((void)comm::split_by_node(world, "node"), Error);
  }
  ::unsetenv("SFT_PRETEND_NODES");
}

BOOST_FIXTURE_TEST_CASE(gathers_bring_all_parts_to_every_node, Nodes) {
  on_all_nodes([&](const comm::Group& group, const comm::NodeMap& map) {
    const std::int64_t most = piece_counts.back() * size;
    const auto block = allocate(group, MemoryUse::gathered, most * 4);
    for (const std::int64_t count : piece_counts) {
      for (const bool in_place : {false, true}) {
        std::vector<float> part = noise_vector<float>(group.rank(), count);
        const Tensor full(block.get(), DType::float32, {count * size});
        const Tensor own = full.rows(group.rank() * count, count);
        if (map.agent(map.node_of(group.rank()), 0) == group.rank()) std::memset(full.data, 0x7f, full.size_bytes());
        barrier(group);
        if (in_place) std::memcpy(own.data, part.data(), own.size_bytes());
        collectives->all_gather(group, full, in_place ? own : tensor_of(part), *stream);
        stream->synchronize();
        std::int64_t num_wrong = 0;
        for (int r = 0; r < size; ++r) {
          for (std::int64_t i = 0; i < count; ++i) num_wrong += full.as<float>()[r * count + i] != noise(r, i);
        }
        BOOST_TEST(num_wrong == 0, count << " elements a rank" << (in_place ? " in place" : ""));
        barrier(group);
      }
    }
  });
}

BOOST_FIXTURE_TEST_CASE(reductions_add_up_nodes_and_then_over_nodes, Nodes) {
  on_all_nodes([&](const comm::Group& group, const comm::NodeMap& map) {
    constexpr std::int64_t counts[] = {16'385, 70'001, 300'001};  // smaller ones go by doubling, nodes or not
    const auto block = allocate(group, MemoryUse::reduced, counts[2] * 8);
    for (const std::int64_t count : counts) {
      for (const ReduceOp op : {ReduceOp::sum, ReduceOp::max}) {
        check_all_reduce<float>(group, map, Tensor(block.get(), DType::float32, {count}), op);
        check_all_reduce<double>(group, map, Tensor(block.get(), DType::float64, {count}), op);
      }
    }
  });
}

BOOST_FIXTURE_TEST_CASE(small_reductions_have_the_bits_of_messages, Nodes) {
  on_all_nodes([&](const comm::Group& group, const comm::NodeMap&) {
    const auto block = allocate(group, MemoryUse::reduced, 4000);
    std::vector<float> by_messages = noise_vector<float>(rank, 1000);
    std::memcpy(block.get(), by_messages.data(), 4000);
    collectives->all_reduce(group, tensor_of(by_messages), ReduceOp::sum, *stream);
    collectives->all_reduce(group, Tensor(block.get(), DType::float32, {1000}), ReduceOp::sum, *stream);
    stream->synchronize();
    BOOST_TEST(std::memcmp(block.get(), by_messages.data(), 4000) == 0);
  });
}

BOOST_FIXTURE_TEST_CASE(reduce_scatters_leave_each_rank_its_piece, Nodes) {
  on_all_nodes([&](const comm::Group& group, const comm::NodeMap& map) {
    const auto block = allocate(group, MemoryUse::reduced, piece_counts.back() * size * 4);
    for (const std::int64_t count : piece_counts) {
      for (const bool is_rounded : {false, true}) {
        std::vector<std::uint16_t> on_wire(static_cast<std::size_t>(count * size));
        const Tensor wire = is_rounded ? tensor_of(on_wire, DType::bf16) : Tensor();
        const Tensor full(block.get(), DType::float32, {count * size});
        const std::vector<float> own = noise_vector<float>(group.rank(), count * size);
        std::vector<float> local(static_cast<std::size_t>(count), 0.25F);
        std::memcpy(full.data, own.data(), full.size_bytes());
        collectives->reduce_scatter_add(group, tensor_of(local), full, *stream, wire);
        stream->synchronize();
        std::memcpy(full.data, own.data(), full.size_bytes());
        collectives->reduce_scatter(group, full, *stream, wire);
        stream->synchronize();
        std::int64_t num_wrong = 0;
        for (std::int64_t i = 0; i < count; ++i) {
          const std::int64_t at = group.rank() * count + i;
          const float sum =
              sum_over_nodes<float>(map, [&](int r) { return is_rounded ? rounded(noise(r, at)) : noise(r, at); });
          num_wrong += local[static_cast<std::size_t>(i)] != 0.25F + sum;
          num_wrong += full.as<float>()[at] != sum;
        }
        BOOST_TEST(num_wrong == 0, count << " elements a rank" << (is_rounded ? ", rounded" : ""));
      }
    }
  });
}

BOOST_FIXTURE_TEST_CASE(an_all_reduce_rounds_what_it_adds_and_the_sum, Nodes) {
  on_all_nodes([&](const comm::Group& group, const comm::NodeMap& map) {
    const auto block = allocate(group, MemoryUse::reduced, 300'001 * 4);
    for (const std::int64_t count : {3, 1000, 300'001}) {
      std::vector<std::uint16_t> on_wire(static_cast<std::size_t>(count));
      const Tensor x(block.get(), DType::float32, {count});
      const std::vector<float> own = noise_vector<float>(group.rank(), count);
      std::memcpy(x.data, own.data(), x.size_bytes());
      collectives->all_reduce(group, x, ReduceOp::sum, *stream, tensor_of(on_wire, DType::bf16));
      stream->synchronize();
      std::int64_t num_wrong = 0;
      for (std::int64_t i = 0; i < count; ++i) {
        const float sum = sum_over_nodes<float>(map, [&](int r) { return rounded(noise(r, i)); });
        num_wrong += x.as<float>()[i] != rounded(sum);
      }
      BOOST_TEST(num_wrong == 0, count << " elements");
      barrier(group);
    }
  });
}

BOOST_FIXTURE_TEST_CASE(between_nodes_a_piece_travels_once, Nodes) {
  constexpr std::int64_t count = 1000;  // of a piece: what arrives fits into the staging memory
  on_all_nodes([&](const comm::Group& group, const comm::NodeMap& map) {
    const auto gathered = allocate(group, MemoryUse::gathered, count * size * 4);
    const auto reduced = allocate(group, MemoryUse::reduced, 5000 * size * 4);
    const int others = map.num_nodes() - 1;
    long num_owners = 0;  // on other nodes, of which this rank is the agent
    for (int node = 0; node < map.num_nodes(); ++node) {
      if (node != map.node_of(group.rank())) num_owners += std::ssize(map.owners_of(group.rank(), node));
    }
    const auto sent = [&](const auto& call) {
      stream->synchronize();
      MessageCount::reset();
      call();
      stream->synchronize();
      return MessageCount::messages;
    };
    std::vector<float> part = noise_vector<float>(rank, count);
    const Tensor full(gathered.get(), DType::float32, {count * size});
    const Tensor x(reduced.get(), DType::float32, {count * size});
    std::fill_n(x.as<float>(), 5000 * size, 1.0F);
    BOOST_TEST(sent([&] { collectives->all_gather(group, full, tensor_of(part), *stream); }) == others);
    BOOST_TEST(MessageCount::bytes == others * count * 4);
    BOOST_TEST(sent([&] { collectives->reduce_scatter_add(group, tensor_of(part), x, *stream); }) == num_owners);
    BOOST_TEST(MessageCount::bytes == num_owners * count * 4);
    const Tensor large(reduced.get(), DType::float32, {5000 * size});
    const std::int64_t piece_bytes = 5000 * 4;
    const bool fits = piece_bytes <= (100 << 10) / others / 64 * 64;
    if (piece_bytes * size > (64 << 10) && fits) {
      BOOST_TEST(sent([&] { collectives->all_reduce(group, large, ReduceOp::sum, *stream); }) == num_owners + others);
    }
    // Where all nodes have as many ranks.
    if (size % map.num_nodes() == 0 && map.most_ranks_on_a_node() == static_cast<std::size_t>(size / map.num_nodes())) {
      BOOST_TEST(num_owners == others);
    }
    barrier(group);
  });
}

BOOST_FIXTURE_TEST_CASE(nodes_with_one_rank_each_need_no_window, Nodes) {
  if (size == 1) return;
  const PretendedNodes nodes(std::vector<int>(static_cast<std::size_t>(size), 1));
  BOOST_TEST((collectives->allocate_shared(world, MemoryUse::reduced, 4096) == nullptr));
}

BOOST_FIXTURE_TEST_CASE(where_one_node_has_no_window_none_has, Nodes) {
  if (size < 4) return;
  const PretendedNodes nodes({size / 2, size - size / 2});
  WindowFaults::mpi_fails = rank == size - 1;
  BOOST_TEST((collectives->allocate_shared(world, MemoryUse::reduced, 4096) == nullptr));
  WindowFaults::mpi_fails = false;
  BOOST_TEST((collectives->allocate_shared(world, MemoryUse::reduced, 4096) != nullptr));
}

BOOST_FIXTURE_TEST_CASE(calls_of_two_streams_over_nodes_are_under_way_at_a_time, Nodes) {
  on_all_nodes([&](const comm::Group& group, const comm::NodeMap&) {
    const auto other = device->make_stream();
    constexpr std::int64_t num_calls = 24, count = 20'000;
    const auto block = allocate(group, MemoryUse::reduced, num_calls * count * 4);
    const auto gathered = allocate(group, MemoryUse::gathered, num_calls * size * 4);
    std::vector<float> parts(num_calls);
    for (std::int64_t call = 0; call < num_calls; ++call) {
      device::Stream& queue = call % 3 == 0 ? *other : *stream;
      const Tensor values(static_cast<float*>(block.get()) + call * count, DType::float32, {count});
      std::fill_n(values.as<float>(), count, static_cast<float>(rank + call));
      collectives->all_reduce(group, values, ReduceOp::sum, queue);
      parts[static_cast<std::size_t>(call)] = static_cast<float>(group.rank() * 1000 + call);
      collectives->all_gather(group, Tensor(static_cast<float*>(gathered.get()) + call * size, DType::float32, {size}),
                              tensor_of(parts).rows(call, 1), queue);
      if (call % (rank + 5) == 0) (call % 2 == 0 ? *other : *stream).synchronize();  // ranks do not keep pace
    }
    stream->synchronize();
    other->synchronize();
    std::int64_t num_wrong = 0;
    for (std::int64_t call = 0; call < num_calls; ++call) {
      const auto expected = static_cast<float>(size * call + size * (size - 1) / 2);
      for (std::int64_t i = 0; i < count; ++i) {
        num_wrong += static_cast<float*>(block.get())[call * count + i] != expected;
      }
      for (int r = 0; r < size; ++r) {
        num_wrong += static_cast<float*>(gathered.get())[call * size + r] != static_cast<float>(r * 1000 + call);
      }
    }
    BOOST_TEST(num_wrong == 0);
    barrier(group);
  });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft::test
