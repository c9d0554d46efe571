// SPDX-License-Identifier: Apache-2.0
// Collectives through copies in the node's memory: the same bits as those that send what they are given, with so little
// memory that everything goes in rounds.
#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "support/collectives_fixture.hpp"

namespace sft::test {

namespace {

/// Collectives of both ways over the world and halves of it, on memory of the same device.
struct Fixture : CollectivesFixture {
  Fixture() {
    const comm::StagingPlan plan{std::size_t{100} << 10, std::size_t{100} << 10};
    device::Arena sizing;
    (void)comm::take_host_staging(sizing, plan);
    copies = device::Arena(*device, ledger, device::Label::communication, sizing.used_bytes(), device::Space::pinned);
    whole = comm::take_host_staging(copies, plan);
    use_bytes_for_copies(std::int64_t{64} * 1024);
  }

  void use_bytes_for_copies(std::int64_t bytes) {
    comm::StagingMemory memory = whole;
    memory.host_copies = whole.host_copies.rows(0, bytes / static_cast<std::int64_t>(sizeof(std::int32_t)));
    through_host->set_staging(memory);
  }

  comm::Group half = world.split(rank % 2, rank, "half");
  device::Arena copies;
  comm::StagingMemory whole;
  std::unique_ptr<comm::Collectives> through_host =
      comm::make_collectives(*device, {world, half}, {.way = comm::Transport::Way::host_copy});
};

constexpr std::int64_t counts[] = {1, 3, 1000, 16384, 16385, 70001};

}  // namespace

BOOST_AUTO_TEST_SUITE(host_collectives)

BOOST_FIXTURE_TEST_CASE(sums_have_the_bits_of_other_sums, Fixture) {
  for (const comm::Group& group : {world, half}) {
    for (const std::int64_t count : counts) {
      std::vector<float> floats = noise_vector<float>(rank, count);
      std::vector<double> doubles = noise_vector<double>(rank, count);
      through_host->all_reduce(group, tensor_of(floats), comm::ReduceOp::sum, *stream);
      through_host->all_reduce(group, tensor_of(doubles), comm::ReduceOp::max, *stream);
      stream->synchronize();
      BOOST_TEST(same_on_all_ranks(group, floats));
      // By hand: ranks differ in the order of sums where a tensor goes in rounds, so that only the last bits may.
      std::vector<double> sums(floats.size()), maxima(floats.size(), -2.0);
      for (int r = 0; r < size; ++r) {
        if (group == half && r % 2 != rank % 2) continue;
        const std::vector<float> other = noise_vector<float>(r, count);
        const std::vector<double> wide = noise_vector<double>(r, count);
        for (std::size_t i = 0; i < other.size(); ++i) {
          sums[i] += static_cast<double>(other[i]);
          maxima[i] = std::max(maxima[i], wide[i]);
        }
      }
      double distance = 0;
      for (std::size_t i = 0; i < sums.size(); ++i) {
        distance = std::max(distance, std::abs(sums[i] - static_cast<double>(floats[i])));
      }
      BOOST_TEST(distance < 1e-6 * size);
      BOOST_TEST(doubles == maxima);
    }
  }
}

BOOST_FIXTURE_TEST_CASE(a_large_sum_in_rounds_has_the_bits_of_one_at_once, Fixture) {
  use_bytes_for_copies(std::int64_t{256} * 1024);
  for (const std::int64_t count : {65536 + 16, 65536 + 1000, 3 * 65536 - 1}) {  // 65536 are a whole round
    std::vector<float> in_rounds = noise_vector<float>(rank, count), at_once = in_rounds;
    through_host->all_reduce(world, tensor_of(in_rounds), comm::ReduceOp::sum, *stream);
    collectives->all_reduce(world, tensor_of(at_once), comm::ReduceOp::sum, *stream);
    stream->synchronize();
    BOOST_TEST((in_rounds == at_once), count << " elements");
  }
}

BOOST_FIXTURE_TEST_CASE(gathers_have_every_rank_s_part_in_its_place, Fixture) {
  for (const comm::Group& group : {world, half}) {
    for (const std::int64_t count : counts) {
      std::vector<double> local = noise_vector<double>(rank, count);
      std::vector<double> full(local.size() * static_cast<std::size_t>(group.size())), expected = full;
      collectives->all_gather(group, tensor_of(expected), tensor_of(local), *stream);
      through_host->all_gather(group, tensor_of(full), tensor_of(local), *stream);
      stream->synchronize();
      BOOST_TEST((full == expected));
      // The local part in its own place.
      std::vector<double> in_place(full.size());
      const std::size_t begin = local.size() * static_cast<std::size_t>(group.rank());
      std::copy(local.begin(), local.end(), in_place.begin() + static_cast<std::ptrdiff_t>(begin));
      through_host->all_gather(group, tensor_of(in_place), Tensor(in_place.data() + begin, DType::float64, {count}),
                               *stream);
      stream->synchronize();
      BOOST_TEST((in_place == expected));
    }
  }
}

BOOST_FIXTURE_TEST_CASE(reduce_scatters_have_the_bits_of_other_ones, Fixture) {
  for (const comm::Group& group : {world, half}) {
    for (const std::int64_t count : counts) {
      const auto results = [&](comm::Collectives& way) {
        std::vector<float> local = noise_vector<float>(100 + rank, count);
        std::vector<float> full = noise_vector<float>(rank, count * group.size());
        way.reduce_scatter_add(group, tensor_of(local), tensor_of(full), *stream);
        stream->synchronize();
        return local;
      };
      BOOST_TEST((results(*through_host) == results(*collectives)));
    }
  }
}

BOOST_FIXTURE_TEST_CASE(pieces_of_sums_have_the_bits_of_other_ones, Fixture) {
  for (const comm::Group& group : {world, half}) {
    for (const std::int64_t count : counts) {
      const auto results = [&](comm::Collectives& way) {
        std::vector<double> inout = noise_vector<double>(rank, count * group.size());
        way.reduce_scatter(group, tensor_of(inout), *stream);
        stream->synchronize();
        const auto own = inout.begin() + group.rank() * count;
        return std::vector<double>(own, own + count);
      };
      BOOST_TEST((results(*through_host) == results(*collectives)));
    }
  }
}

BOOST_FIXTURE_TEST_CASE(neighbours_exchange_messages_of_different_lengths, Fixture) {
  const int to = (rank + 1) % size, from = (rank + size - 1) % size;
  for (const std::int64_t unit : {std::int64_t{1}, std::int64_t{20000}}) {
    // Rank r sends r x unit numbers: rank 0 none, and others in different numbers of rounds.
    std::vector<float> send = noise_vector<float>(rank, rank * unit);
    std::vector<float> receive(static_cast<std::size_t>(from * unit));
    through_host->exchange(world, tensor_of(send), to, tensor_of(receive), from, *stream);
    stream->synchronize();
    BOOST_TEST((receive == noise_vector<float>(from, from * unit)));
  }
}

BOOST_FIXTURE_TEST_CASE(all_ranks_exchange_any_messages_at_the_same_time, Fixture) {
  // From a to b go (a + 2 b) % 3 messages, of lengths that need up to three rounds.
  const auto num_messages = [](int a, int b) { return a == b ? 0 : (a + 2 * b) % 3; };
  const auto length = [](int a, int b, int i) { return std::int64_t{1} + (7 * a + 5 * b + 3 * i) % 4 * 7000; };
  std::vector<std::vector<float>> sent, received, expected;
  std::vector<std::pair<std::size_t, int>> sends, receives;
  for (int peer = 0; peer < size; ++peer) {
    for (int i = 0; i < num_messages(rank, peer); ++i) {
      sends.emplace_back(sent.size(), peer);
      sent.push_back(noise_vector<float>(1000 * rank + 10 * peer + i, length(rank, peer, i)));
    }
    for (int i = 0; i < num_messages(peer, rank); ++i) {
      receives.emplace_back(received.size(), peer);
      expected.push_back(noise_vector<float>(1000 * peer + 10 * rank + i, length(peer, rank, i)));
      received.emplace_back(expected.back().size());
    }
  }
  std::vector<comm::Message> out, in;
  for (const auto& [index, peer] : sends) out.push_back({tensor_of(sent[index]), peer});
  for (const auto& [index, peer] : receives) in.push_back({tensor_of(received[index]), peer});
  through_host->exchange_all(world, out, in, *stream);
  stream->synchronize();
  BOOST_TEST((received == expected));
}

BOOST_FIXTURE_TEST_CASE(calls_of_several_streams_and_groups_follow_each_other, Fixture) {
  const std::unique_ptr<device::Stream> other = device->make_stream();
  std::vector<float> a = noise_vector<float>(rank, 20000), b = noise_vector<float>(rank, 30000), a2 = a, b2 = b;
  for (int i = 0; i < 5; ++i) {
    through_host->all_reduce(half, tensor_of(a), comm::ReduceOp::max, *stream);
    through_host->all_reduce(world, tensor_of(b), comm::ReduceOp::max, *other);
    collectives->all_reduce(half, tensor_of(a2), comm::ReduceOp::max, *stream);
    collectives->all_reduce(world, tensor_of(b2), comm::ReduceOp::max, *other);
  }
  stream->synchronize();
  other->synchronize();
  BOOST_TEST((a == a2));
  BOOST_TEST((b == b2));
}

BOOST_FIXTURE_TEST_CASE(misuse_is_a_bug_that_is_named, Fixture) {
  std::vector<float> values(8);
  if (size > 1) {
    const comm::Group unknown = world.split(0, rank, "unknown");
    BOOST_CHECK_THROW(through_host->all_reduce(unknown, tensor_of(values), comm::ReduceOp::sum, *stream),
                      std::logic_error);
  }
  BOOST_CHECK_THROW(
      through_host->all_gather(world, tensor_of(values), Tensor(values.data(), DType::float32, {9}), *stream),
      std::logic_error);
}

}  // namespace sft::test

BOOST_AUTO_TEST_SUITE_END()
