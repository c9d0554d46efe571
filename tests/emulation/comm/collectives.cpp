// SPDX-License-Identifier: Apache-2.0
// Collectives between GPUs compute what those between CPUs do, whichever way the tensors travel.
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <vector>

#include "sft/comm/collectives.hpp"
#include "sft/device/factory.hpp"
#include "support/collectives_memory.hpp"
#include "support/mpi_session.hpp"

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

/// A group with all its ranks in another one, where NCCL finds them; with or without sums.
comm::TensorGroup within(const comm::Group& whole, const comm::Group& part, bool has_sums) {
  comm::TensorGroup result(part);
  result.has_sums = has_sums;
  result.has_exchanges = has_sums;
  result.within = whole;
  return result;
}

/// A GPU for each rank, and collectives over the world and over the even and the odd ranks; over the world once more,
/// for gathers alone.
class Machine {
 public:
  explicit Machine(Transport::Way way)
      : collectives(comm::make_collectives(*device, {world, within(world, half, true), within(world, gathers, false)},
                                           {.way = way})) {
    device::Arena sizing, pinned_sizing;
    (void)comm::take_staging(device->kind(), way, sizing, pinned_sizing, plan_);
    const auto arena = [&](const device::Arena& sized, device::Space space) {
      return device::Arena(*device, ledger_, device::Label::communication, sized.used_bytes(), space);
    };
    staging_ = arena(sizing, device::Space::device);
    pinned_staging_ = arena(pinned_sizing, device::Space::pinned);
    whole_ = comm::take_staging(device->kind(), way, staging_, pinned_staging_, plan_);
    collectives->set_staging(whole_);
  }

  /// So little memory for copies through the host that much goes in rounds.
  void use_little_staging() {
    if (whole_.host_copies.empty()) return;
    comm::StagingMemory little = whole_;
    little.host_copies = whole_.host_copies.rows(0, 8192);
    collectives->set_staging(little);
  }

  const comm::Group& world = session().world();
  comm::Group half = world.split(world.rank() % 2, world.rank(), "half");
  comm::Group gathers = world.split(0, world.rank(), "gathers");
  int rank = world.rank(), size = world.size();
  std::unique_ptr<device::Device> device =
      device::make_device(device::Kind::cuda, {.num_local_ranks = size, .gpu = rank});
  std::unique_ptr<device::Stream> stream = device->make_stream(), other = device->make_stream();

 private:
  comm::StagingPlan plan_{std::size_t{1} << 20, std::size_t{1} << 20};
  device::Ledger ledger_;
  device::Arena staging_, pinned_staging_;
  comm::StagingMemory whole_;

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

constexpr std::pair<Transport::Way, const char*> ways[] = {{Transport::Way::direct, "NCCL"},
                                                           {Transport::Way::host_copy, "host copies"},
                                                           {Transport::Way::cuda_mpi, "CUDA-aware MPI"}};

void on_all_ways(const std::function<void(Machine&)>& test) {
  for (const auto& [way, name] : ways) {
    if (way == Transport::Way::cuda_mpi && !comm::is_mpi_cuda_aware()) continue;
    BOOST_TEST_CONTEXT(name) {
      Machine machine(way);
      machine.use_little_staging();
      test(machine);
    }
  }
}

/// The world's ranks of a group, in order.
std::vector<int> members(const Machine& machine, const comm::Group& group) {
  std::vector<int> result;
  for (int r = 0; r < machine.size; ++r) {
    if (group == machine.world || group == machine.gathers || r % 2 == machine.rank % 2) result.push_back(r);
  }
  return result;
}

}  // namespace

BOOST_AUTO_TEST_CASE(sums_over_two_groups_on_two_streams) {
  on_all_ways([](Machine& m) {
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
  on_all_ways([](Machine& m) {
    for (const comm::Group& group : {m.world, m.half, m.gathers}) {
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
  on_all_ways([](Machine& m) {
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
  on_all_ways([](Machine& m) {
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

// Each rounding is 2^-9 of a number at most. MPI rounds what is sent, NCCL every partial sum on its way as well, and an
// all-reduce the result: size + 1 roundings of no more than the sum of all magnitudes, with which they are compared.
BOOST_AUTO_TEST_CASE(sums_that_travel_as_bf16_are_near_and_twice_the_same_bits) {
  on_all_ways([](Machine& m) {
    for (const comm::Group& group : {m.world, m.half}) {
      for (const std::int64_t count : counts) {
        const std::int64_t all = count * group.size(), own = group.rank() * count;
        const OnDevice wire(m, *m.stream, std::vector<float>(static_cast<std::size_t>((all + 1) / 2)));
        const Tensor bf16(wire.tensor().data, DType::bf16, {all});
        const auto results = [&] {
          const OnDevice sum(m, *m.stream, values(m.rank, all)), piece(m, *m.stream, values(m.rank, all)),
              full(m, *m.stream, values(m.rank, all)), local(m, *m.stream, std::vector<float>(count, 0.25F));
          m.collectives->all_reduce(group, sum.tensor(), comm::ReduceOp::sum, *m.stream, bf16);
          m.collectives->reduce_scatter(group, piece.tensor(), *m.stream, bf16);
          m.collectives->reduce_scatter_add(group, local.tensor(), full.tensor(), *m.stream, bf16);
          return std::vector{sum.download(), piece.download(), local.download()};
        };
        const std::vector<std::vector<float>> found = results(), again = results();
        std::int64_t num_far = 0, num_other = 0;
        bool is_rounded = group.size() == 1;
        for (std::int64_t i = 0; i < all; ++i) {
          double sum = 0, magnitude = 0;
          for (const int r : members(m, group)) {
            sum += static_cast<double>(value(r, i));
            magnitude += std::abs(static_cast<double>(value(r, i)));
          }
          const double bound = group.size() == 1 ? 1e-6 * magnitude : (group.size() + 1) * magnitude / 512;
          const auto check = [&](const std::vector<std::vector<float>>& of, std::size_t what, std::int64_t at,
                                 double expected) {
            const float x = of[what][static_cast<std::size_t>(at)];
            num_far += std::abs(static_cast<double>(x) - expected) > bound + 1e-6;
            num_other += x != again[what][static_cast<std::size_t>(at)];
            is_rounded = is_rounded || std::abs(static_cast<double>(x) - expected) > 1e-6 * magnitude;
          };
          check(found, 0, i, sum);
          if (i < own || i >= own + count) continue;
          check(found, 1, i, sum);
          check(found, 2, i - own, 0.25 + sum);
        }
        BOOST_TEST(num_far == 0, count << " elements, " << group.name());
        BOOST_TEST(num_other == 0, count << " elements, " << group.name());
        BOOST_TEST((is_rounded || count < 1000), count << " elements, " << group.name());
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(memory_of_the_collectives_is_like_any_other) {
  on_all_ways([](Machine& m) {
    for (const comm::Group& group : {m.world, m.half}) {
      constexpr std::int64_t count = 1000;
      const std::size_t peak = m.device->peak_bytes();
      const std::size_t bytes = static_cast<std::size_t>(count * group.size()) * sizeof(float);
      const OnDevice full(m, *m.stream, values(m.rank, count * group.size()),
                          allocate_for_collectives(*m.collectives, group, comm::MemoryUse::reduced, bytes));
      BOOST_TEST(m.device->peak_bytes() >= peak);
      const OnDevice local(m, *m.stream, std::vector<float>(static_cast<std::size_t>(count), 1.0F));
      m.collectives->reduce_scatter_add(group, local.tensor(), full.tensor(), *m.stream);
      const std::vector<float> sums = local.download();
      m.collectives->all_gather(group, full.tensor(), local.tensor(), *m.stream);
      const std::vector<float> gathered = full.download();
      BOOST_TEST((std::vector<float>(gathered.begin() + group.rank() * count,
                                     gathered.begin() + (group.rank() + 1) * count) == sums));
    }
    BOOST_TEST((allocate_for_collectives(*m.collectives, m.world, comm::MemoryUse::gathered, 0) == nullptr));
  });
}

BOOST_AUTO_TEST_CASE(messages_between_neighbours_and_among_all) {
  on_all_ways([](Machine& m) {
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

BOOST_AUTO_TEST_CASE(a_group_of_one_rank_is_legal_though_the_collectives_were_not_made_for_it) {
  on_all_ways([](Machine& m) {
    const comm::Group self = comm::self_group();
    const std::vector<float> mine = values(m.rank, 1000);
    const OnDevice from(m, *m.stream, mine), to(m, *m.stream, std::vector<float>(mine.size()));
    m.collectives->all_gather(self, to.tensor(), from.tensor(), *m.stream);
    m.collectives->all_gather(self, to.tensor(), to.tensor(), *m.stream);
    m.collectives->all_reduce(self, to.tensor(), comm::ReduceOp::sum, *m.stream);
    m.collectives->reduce_scatter(self, to.tensor(), *m.stream);
    m.collectives->exchange_all(self, {}, {}, *m.stream);
    BOOST_TEST(to.download() == mine, boost::test_tools::per_element());
    m.collectives->reduce_scatter_add(self, to.tensor(), from.tensor(), *m.stream);
    std::vector<float> twice;
    for (const float x : mine) twice.push_back(x + x);
    BOOST_TEST(to.download() == twice, boost::test_tools::per_element());
    m.collectives->exchange(self, to.tensor(), 0, from.tensor(), 0, *m.stream);
    BOOST_TEST(from.download() == twice, boost::test_tools::per_element());
  });
}

BOOST_AUTO_TEST_CASE(host_copies_and_a_cuda_aware_mpi_give_the_same_bits) {
  if (!comm::is_mpi_cuda_aware()) return;
  // Small sums take another order than large ones.
  for (const std::int64_t count : {std::int64_t{1000}, std::int64_t{40001}}) {
    std::vector<std::vector<float>> results;
    for (const Transport::Way way : {Transport::Way::host_copy, Transport::Way::cuda_mpi}) {
      Machine m(way);
      std::vector<float>& all = results.emplace_back();
      const auto add = [&](const OnDevice& tensor, std::int64_t begin, std::int64_t end) {
        const std::vector<float> part = tensor.download();
        all.insert(all.end(), part.begin() + begin, part.begin() + end);
      };
      const OnDevice sum(m, *m.stream, values(m.rank, count)), full(m, *m.stream, values(m.rank, count * m.size)),
          local(m, *m.stream, values(1 + m.rank, count)), scattered(m, *m.stream, values(m.rank, count * m.size));
      m.collectives->all_reduce(m.world, sum.tensor(), comm::ReduceOp::sum, *m.stream);
      m.collectives->reduce_scatter_add(m.world, local.tensor(), full.tensor(), *m.stream);
      m.collectives->reduce_scatter(m.world, scattered.tensor(), *m.stream);
      add(sum, 0, count);
      add(local, 0, count);
      add(scattered, m.rank * count, (m.rank + 1) * count);
    }
    BOOST_TEST((results[0] == results[1]), count << " elements");
  }
}

BOOST_AUTO_TEST_CASE(doubles_are_summed_by_a_cuda_aware_mpi_too) {
  if (!comm::is_mpi_cuda_aware()) return;
  Machine m(Transport::Way::cuda_mpi);
  const OnDevice memory(m, *m.stream, std::vector<float>(10));
  for (const comm::ReduceOp op : {comm::ReduceOp::sum, comm::ReduceOp::max}) {
    constexpr double nan = std::numeric_limits<double>::quiet_NaN();
    const double own[] = {1.0 + m.rank, -0.25 * m.rank, 1e300, m.rank == 0 ? nan : 1.0,
                          m.rank == m.size - 1 ? nan : 1.0};
    const auto pinned = m.device->allocate(sizeof own, device::Space::pinned);
    std::memcpy(pinned.get(), own, sizeof own);
    const Tensor tensor(memory.tensor().data, DType::float64, {std::ssize(own)});
    m.device->copy(tensor.data, pinned.get(), sizeof own, *m.stream);
    m.collectives->all_reduce(m.world, tensor, op, *m.stream);
    m.device->copy(pinned.get(), tensor.data, sizeof own, *m.stream);
    m.stream->synchronize();
    const auto* result = static_cast<const double*>(pinned.get());
    const bool is_sum = op == comm::ReduceOp::sum;
    const double sum_of_ranks = 0.5 * m.size * (m.size - 1);
    BOOST_TEST(result[0] == (is_sum ? m.size + sum_of_ranks : m.size));
    BOOST_TEST(result[1] == (is_sum ? -0.25 * sum_of_ranks : 0.0));
    BOOST_TEST(result[2] == (is_sum ? 1e300 * m.size : 1e300));
    BOOST_TEST((std::isnan(result[3]) && std::isnan(result[4])), "NaN of the first and of the last rank");
  }
}

}  // namespace sft::test
