// SPDX-License-Identifier: Apache-2.0
// Collectives between GPUs compute what those between CPUs do, whichever way the tensors travel.
#define BOOST_TEST_MODULE emulated_comm_collectives
#define BOOST_TEST_NO_MAIN
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#include "sft/comm/collectives.hpp"
#include "sft/device/factory.hpp"
#include "support/mpi_test_main.hpp"

namespace sft::test {

namespace {

using comm::Transport;

constexpr std::int64_t counts[] = {1, 3, 1000, 40001};

/// What rank `rank` contributes: sums of it depend on their order.
float value(int rank, std::int64_t i) {
  return 1.0F / static_cast<float>(3 + rank) + static_cast<float>(i % 100) * (rank % 2 == 0 ? 1e3F : -1e-3F);
}

std::vector<float> values(int rank, std::int64_t count, std::int64_t first = 0) {
  std::vector<float> result;
  for (std::int64_t i = 0; i < count; ++i) result.push_back(value(rank, first + i));
  return result;
}

/// A GPU for each rank, and collectives over the world and over the even and the odd ranks.
class Machine {
 public:
  explicit Machine(Transport::Way way)
      : collectives(comm::make_collectives(*device, {world, half}, {.way = way, .timeout_s = 600})) {
    if (way == Transport::Way::direct) return;
    device::Arena sizing;
    (void)comm::take_host_staging(sizing, plan_);
    staging_ =
        device::Arena(*device, ledger_, device::Label::communication, sizing.used_bytes(), device::Space::pinned);
    comm::StagingMemory staging = comm::take_host_staging(staging_, plan_);
    staging.host_copies = staging.host_copies.rows(0, 8192);  // so little that much goes in rounds
    collectives->set_staging(staging);
  }

  const comm::Group& world = session().world();
  comm::Group half = world.split(world.rank() % 2, world.rank(), "half");
  int rank = world.rank(), size = world.size();
  std::unique_ptr<device::Device> device = device::make_device(device::Kind::cuda, rank, size);
  std::unique_ptr<device::Stream> stream = device->make_stream(), other = device->make_stream();

 private:
  comm::StagingPlan plan_{std::size_t{1} << 20, std::size_t{1} << 20};
  device::Ledger ledger_;
  device::Arena staging_;

 public:
  std::unique_ptr<comm::Collectives> collectives;
};

/// Device memory with a copy of host values, on a stream.
class OnDevice {
 public:
  OnDevice(Machine& machine, device::Stream& stream, const std::vector<float>& host)
      : OnDevice(machine, stream, host, machine.device->allocate(host.size() * sizeof(float) + 4)) {}
  /// In memory from elsewhere.
  OnDevice(Machine& machine, device::Stream& stream, const std::vector<float>& host, device::Device::Block memory)
      : machine_(machine),
        stream_(stream),
        count_(std::ssize(host)),
        memory_(std::move(memory)),
        pinned_(machine.device->allocate(host.size() * sizeof(float) + 4, device::Space::pinned)) {
    std::memcpy(pinned_.get(), host.data(), host.size() * sizeof(float));
    machine.device->copy(memory_.get(), pinned_.get(), host.size() * sizeof(float), stream);
  }
  [[nodiscard]] Tensor tensor() const { return {memory_.get(), DType::float32, {count_}}; }
  [[nodiscard]] std::vector<float> download() const {
    machine_.device->copy(pinned_.get(), memory_.get(), static_cast<std::size_t>(count_) * sizeof(float), stream_);
    stream_.synchronize();
    const auto* begin = static_cast<const float*>(pinned_.get());
    return {begin, begin + count_};
  }

 private:
  Machine& machine_;
  device::Stream& stream_;
  std::int64_t count_;
  device::Device::Block memory_, pinned_;
};

void on_both_ways(const std::function<void(Machine&)>& test) {
  for (const Transport::Way way : {Transport::Way::direct, Transport::Way::host_copy}) {
    BOOST_TEST_CONTEXT((way == Transport::Way::direct ? "NCCL" : "host copies")) {
      Machine machine(way);
      test(machine);
    }
  }
}

/// The world's ranks of a group, in order.
std::vector<int> members(const Machine& machine, const comm::Group& group) {
  std::vector<int> result;
  for (int r = 0; r < machine.size; ++r) {
    if (group == machine.world || r % 2 == machine.rank % 2) result.push_back(r);
  }
  return result;
}

}  // namespace

BOOST_AUTO_TEST_CASE(sums_over_two_groups_on_two_streams) {
  on_both_ways([](Machine& m) {
    for (const std::int64_t count : counts) {
      const OnDevice of_world(m, *m.stream, values(m.rank, count)), of_half(m, *m.other, values(m.rank, count));
      m.collectives->all_reduce(m.world, of_world.tensor(), comm::ReduceOp::sum, *m.stream);
      m.collectives->all_reduce(m.half, of_half.tensor(), comm::ReduceOp::max, *m.other);
      const std::vector<float> sums = of_world.download(), maxima = of_half.download();
      std::int64_t num_wrong = 0;
      for (std::int64_t i = 0; i < count; ++i) {
        double sum = 0, magnitude = 0;
        for (const int r : members(m, m.world)) {
          sum += static_cast<double>(value(r, i));
          magnitude += std::abs(static_cast<double>(value(r, i)));
        }
        float maximum = value(m.rank, i);
        for (const int r : members(m, m.half)) maximum = std::max(maximum, value(r, i));
        const auto at = static_cast<std::size_t>(i);
        num_wrong += std::abs(static_cast<double>(sums[at]) - sum) > 1e-6 * magnitude || maxima[at] != maximum;
      }
      BOOST_TEST(num_wrong == 0, count << " elements");
    }
  });
}

BOOST_AUTO_TEST_CASE(gathers_in_and_out_of_place) {
  on_both_ways([](Machine& m) {
    for (const comm::Group& group : {m.world, m.half}) {
      for (const std::int64_t count : counts) {
        std::vector<float> expected;
        for (const int r : members(m, group)) {
          const std::vector<float> part = values(r, count);
          expected.insert(expected.end(), part.begin(), part.end());
        }
        const OnDevice local(m, *m.stream, values(m.rank, count));
        const OnDevice full(m, *m.stream, std::vector<float>(expected.size()));
        m.collectives->all_gather(group, full.tensor(), local.tensor(), *m.stream);
        BOOST_TEST((full.download() == expected));
        std::vector<float> own(expected.size());
        const std::vector<float> part = values(m.rank, count);
        std::copy(part.begin(), part.end(), own.begin() + group.rank() * count);
        const OnDevice in_place(m, *m.stream, own);
        m.collectives->all_gather(group, in_place.tensor(), in_place.tensor().rows(group.rank() * count, count),
                                  *m.stream);
        BOOST_TEST((in_place.download() == expected));
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(reduce_scatters_add_to_what_is_there) {
  on_both_ways([](Machine& m) {
    for (const comm::Group& group : {m.world, m.half}) {
      for (const std::int64_t count : counts) {
        const OnDevice full(m, *m.stream, values(m.rank, count * group.size()));
        const OnDevice local(m, *m.stream, std::vector<float>(static_cast<std::size_t>(count), 0.25F));
        m.collectives->reduce_scatter_add(group, local.tensor(), full.tensor(), *m.stream);
        std::vector<float> expected;
        for (std::int64_t i = 0; i < count; ++i) {
          const std::vector<int> ranks = members(m, group);
          float sum = value(ranks[0], group.rank() * count + i);
          for (std::size_t r = 1; r < ranks.size(); ++r) sum += value(ranks[r], group.rank() * count + i);
          expected.push_back(0.25F + sum);
        }
        BOOST_TEST((local.download() == expected), count << " elements, " << group.name());
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(a_rank_gets_its_piece_of_the_sum_in_place) {
  on_both_ways([](Machine& m) {
    for (const comm::Group& group : {m.world, m.half}) {
      for (const std::int64_t count : counts) {
        const OnDevice inout(m, *m.stream, values(m.rank, count * group.size()));
        m.collectives->reduce_scatter(group, inout.tensor(), *m.stream);
        const std::vector<float> all = inout.download();
        const std::vector<int> ranks = members(m, group);
        std::int64_t num_wrong = 0;
        for (std::int64_t i = group.rank() * count; i < (group.rank() + 1) * count; ++i) {
          float sum = value(ranks[0], i);
          for (std::size_t r = 1; r < ranks.size(); ++r) sum += value(ranks[r], i);
          num_wrong += all[static_cast<std::size_t>(i)] != sum;
        }
        BOOST_TEST(num_wrong == 0, count << " elements, " << group.name());
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(memory_of_the_collectives_is_like_any_other) {
  on_both_ways([](Machine& m) {
    for (const comm::Group& group : {m.world, m.half}) {
      constexpr std::int64_t count = 1000;
      const std::size_t peak = m.device->peak_bytes();
      const std::size_t bytes = static_cast<std::size_t>(count * group.size()) * sizeof(float);
      const OnDevice full(m, *m.stream, values(m.rank, count * group.size()),
                          m.collectives->allocate(group, comm::MemoryUse::reduced, bytes));
      BOOST_TEST(m.device->peak_bytes() >= peak);
      const OnDevice local(m, *m.stream, std::vector<float>(static_cast<std::size_t>(count), 1.0F));
      m.collectives->reduce_scatter_add(group, local.tensor(), full.tensor(), *m.stream);
      const std::vector<float> sums = local.download();
      m.collectives->all_gather(group, full.tensor(), local.tensor(), *m.stream);
      const std::vector<float> gathered = full.download();
      BOOST_TEST((std::vector<float>(gathered.begin() + group.rank() * count,
                                     gathered.begin() + (group.rank() + 1) * count) == sums));
    }
    BOOST_TEST((m.collectives->allocate(m.world, comm::MemoryUse::gathered, 0) == nullptr));
  });
}

BOOST_AUTO_TEST_CASE(messages_between_neighbours_and_among_all) {
  on_both_ways([](Machine& m) {
    const int to = (m.rank + 1) % m.size, from = (m.rank + m.size - 1) % m.size;
    // Rank r sends r x 3001 numbers: rank 0 none.
    const OnDevice send(m, *m.stream, values(m.rank, 3001 * m.rank));
    const OnDevice receive(m, *m.stream, std::vector<float>(static_cast<std::size_t>(3001 * from)));
    m.collectives->exchange(m.world, send.tensor(), to, receive.tensor(), from, *m.stream);
    BOOST_TEST((receive.download() == values(from, 3001 * from)));

    // From a to b go (a + 2 b) % 3 messages.
    std::vector<std::unique_ptr<OnDevice>> sent, received;
    std::vector<std::vector<float>> expected;
    std::vector<comm::Message> sends, receives;
    for (int peer = 0; peer < m.size; ++peer) {
      if (peer == m.rank) continue;
      for (int i = 0; i < (m.rank + 2 * peer) % 3; ++i) {
        sent.push_back(std::make_unique<OnDevice>(m, *m.stream, values(m.rank, 2000 + 100 * peer + i, i)));
        sends.push_back({sent.back()->tensor(), peer});
      }
      for (int i = 0; i < (peer + 2 * m.rank) % 3; ++i) {
        expected.push_back(values(peer, 2000 + 100 * m.rank + i, i));
        received.push_back(std::make_unique<OnDevice>(m, *m.stream, std::vector<float>(expected.back().size())));
        receives.push_back({received.back()->tensor(), peer});
      }
    }
    m.collectives->exchange_all(m.world, sends, receives, *m.stream);
    for (std::size_t i = 0; i < received.size(); ++i) BOOST_TEST((received[i]->download() == expected[i]));
  });
}

}  // namespace sft::test
