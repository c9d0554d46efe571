// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <string>

#include "sft/core/dtype.hpp"
#include "support/collectives_fixture.hpp"

namespace sft::test {

namespace {

const std::vector<std::int64_t> element_counts = {1, 3, 1000, 70'001};

/// Byte `index` of what `rank` contributes.
std::uint8_t pattern(int rank, std::size_t index) {
  return static_cast<std::uint8_t>(static_cast<std::size_t>(rank) * 37 + index * 11 + index / 251);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(collectives)

BOOST_FIXTURE_TEST_CASE(all_gather_brings_all_parts_in_rank_order, CollectivesFixture) {
  for (const DType dtype : {DType::float32, DType::bf16, DType::float64, DType::int32}) {
    for (const std::int64_t count : element_counts) {
      for (const bool in_place : {false, true}) {
        const std::size_t bytes = static_cast<std::size_t>(count) * size_of(dtype);
        std::vector<std::uint8_t> full(bytes * static_cast<std::size_t>(size)), local(bytes);
        std::uint8_t* part = in_place ? full.data() + static_cast<std::size_t>(rank) * bytes : local.data();
        for (std::size_t i = 0; i < bytes; ++i) part[i] = pattern(rank, i);
        collectives->all_gather(world, Tensor(full.data(), dtype, {count * size}), Tensor(part, dtype, {count}),
                                *stream);
        stream->synchronize();
        bool is_right = true;
        for (int r = 0; r < size; ++r) {
          for (std::size_t i = 0; i < bytes; ++i)
            is_right &= full[static_cast<std::size_t>(r) * bytes + i] == pattern(r, i);
        }
        BOOST_TEST(is_right, name_of(dtype) << " x " << count << (in_place ? " in place" : ""));
      }
    }
  }
}

BOOST_FIXTURE_TEST_CASE(reduce_scatter_adds_the_sum_in_rank_order, CollectivesFixture) {
  for (const std::int64_t count : element_counts) {
    std::vector<float> full = noise_vector<float>(rank, count * size);
    std::vector<float> local(static_cast<std::size_t>(count), 0.25F);
    collectives->reduce_scatter_add(world, tensor_of(local), tensor_of(full), *stream);
    stream->synchronize();
    std::int64_t num_wrong = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      float sum = noise(0, rank * count + i);
      for (int r = 1; r < size; ++r) sum += noise(r, rank * count + i);
      num_wrong += local[static_cast<std::size_t>(i)] != 0.25F + sum;
    }
    BOOST_TEST(num_wrong == 0, count << " elements a rank");
  }
}

BOOST_FIXTURE_TEST_CASE(reduce_scatter_leaves_each_rank_its_piece_of_the_sum, CollectivesFixture) {
  const auto sum_at = [&](std::int64_t i) {
    float sum = noise(0, i);
    for (int r = 1; r < size; ++r) sum += noise(r, i);
    return sum;
  };
  for (const std::int64_t count : {std::int64_t{1}, std::int64_t{3}, std::int64_t{1000}, std::int64_t{300'001}}) {
    std::vector<float> values = noise_vector<float>(rank, count * size);
    collectives->reduce_scatter(world, tensor_of(values), *stream);
    stream->synchronize();
    std::int64_t num_wrong = 0;
    for (std::int64_t i = rank * count; i < (rank + 1) * count; ++i) {
      num_wrong += values[static_cast<std::size_t>(i)] != sum_at(i);
    }
    BOOST_TEST(num_wrong == 0, count << " elements a rank");
    // With the pieces of the others it is the sum on all ranks.
    collectives->all_gather(world, tensor_of(values), tensor_of(values).rows(rank * count, count), *stream);
    stream->synchronize();
    for (std::int64_t i = 0; i < count * size; ++i) num_wrong += values[static_cast<std::size_t>(i)] != sum_at(i);
    BOOST_TEST(num_wrong == 0, count << " elements a rank, gathered");
  }
  std::vector<double> wide(static_cast<std::size_t>(2 * size), 1.0 + std::ldexp(static_cast<double>(rank + 1), -45));
  collectives->reduce_scatter(world, tensor_of(wide), *stream);
  stream->synchronize();
  BOOST_TEST(wide[static_cast<std::size_t>(2 * rank + 1)] == size + std::ldexp(size * (size + 1) / 2.0, -45));
  if (size == 1) return;
  std::vector<float> odd(static_cast<std::size_t>(size) + 1);
  BOOST_CHECK_THROW(collectives->reduce_scatter(world, tensor_of(odd), *stream), std::logic_error);
}

BOOST_FIXTURE_TEST_CASE(all_reduce_sums_to_the_same_bits_everywhere_and_every_time, CollectivesFixture) {
  for (const std::int64_t count : {1, 7, 1000, 16'385, 300'001}) {
    std::vector<float> values = noise_vector<float>(rank, count);
    collectives->all_reduce(world, tensor_of(values), comm::ReduceOp::sum, *stream);
    stream->synchronize();
    double largest_error = 0.0;
    for (std::int64_t i = 0; i < count; ++i) {
      double sum = 0.0;
      for (int r = 0; r < size; ++r) sum += noise(r, i);
      largest_error = std::max(largest_error, std::abs(sum - values[static_cast<std::size_t>(i)]));
    }
    BOOST_TEST(largest_error < 1e-6 * size, count << " elements");
    BOOST_TEST(same_on_all_ranks(world, values), count << " elements");

    std::vector<float> again = noise_vector<float>(rank, count);
    collectives->all_reduce(world, tensor_of(again), comm::ReduceOp::sum, *stream);
    stream->synchronize();
    BOOST_TEST((again == values), count << " elements");
  }
}

BOOST_FIXTURE_TEST_CASE(all_reduce_of_float64_keeps_its_precision, CollectivesFixture) {
  for (const std::int64_t count : {1, 5, 20'000}) {
    std::vector<double> values(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = 1.0 + std::ldexp(static_cast<double>(rank + 1), -45);
    collectives->all_reduce(world, tensor_of(values), comm::ReduceOp::sum, *stream);
    stream->synchronize();
    const double expected = size + std::ldexp(size * (size + 1) / 2.0, -45);
    BOOST_TEST((values == std::vector<double>(values.size(), expected)), count << " elements");
  }
}

BOOST_FIXTURE_TEST_CASE(all_reduce_finds_the_maximum, CollectivesFixture) {
  for (const std::int64_t count : {1, 6, 40'000}) {
    std::vector<float> values = noise_vector<float>(rank, count);
    for (float& value : values) value -= 2.0F;  // all negative
    collectives->all_reduce(world, tensor_of(values), comm::ReduceOp::max, *stream);
    stream->synchronize();
    std::int64_t num_wrong = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      float expected = -std::numeric_limits<float>::infinity();
      for (int r = 0; r < size; ++r) expected = std::max(expected, noise(r, i) - 2.0F);
      num_wrong += values[static_cast<std::size_t>(i)] != expected;
    }
    BOOST_TEST(num_wrong == 0, count << " elements");
  }
}

BOOST_FIXTURE_TEST_CASE(a_nan_of_any_rank_survives_a_maximum, CollectivesFixture) {
  for (int bad_rank = 0; bad_rank < size; ++bad_rank) {
    std::vector<double> values = {1.0, rank == bad_rank ? std::nan("") : 1.0};
    collectives->all_reduce(world, tensor_of(values), comm::ReduceOp::max, *stream);
    stream->synchronize();
    BOOST_TEST(values[0] == 1.0);
    BOOST_TEST(std::isnan(values[1]));
  }
}

BOOST_FIXTURE_TEST_CASE(exchange_shifts_around_the_ring, CollectivesFixture) {
  for (const std::int64_t count : element_counts) {
    std::vector<float> mine = noise_vector<float>(rank, count), theirs(mine.size());
    const int from = (rank - 1 + size) % size;
    collectives->exchange(world, tensor_of(mine), (rank + 1) % size, tensor_of(theirs), from, *stream);
    stream->synchronize();
    BOOST_TEST((theirs == noise_vector<float>(from, count)));
  }
}

BOOST_FIXTURE_TEST_CASE(exchange_with_nothing_to_send_or_receive, CollectivesFixture) {
  std::vector<float> mine = noise_vector<float>(rank, 100), theirs(100, -7.0F);
  const bool is_first = rank == 0, is_last = rank == size - 1;
  collectives->exchange(world, is_last ? Tensor() : tensor_of(mine), is_last ? 0 : rank + 1,
                        is_first ? Tensor() : tensor_of(theirs), is_first ? 0 : rank - 1, *stream);
  stream->synchronize();
  BOOST_TEST((theirs == (is_first ? std::vector<float>(100, -7.0F) : noise_vector<float>(rank - 1, 100))));
  collectives->exchange(world, Tensor(), 0, Tensor(), 0, *stream);
  stream->synchronize();
}

BOOST_FIXTURE_TEST_CASE(exchange_all_reaches_every_rank_with_lengths_of_its_own, CollectivesFixture) {
  // Rank r sends rank q two messages, of 1000 + 10 r + q and of 5 q numbers, but nothing from ranks of odd distance.
  const auto is_silent = [](int from, int to) { return (from + to) % 2 != 0; };
  const auto count = [](int from, int to, int which) { return which == 0 ? 1000 + 10 * from + to : 5 * (to + 1); };
  for (int round = 0; round < 2; ++round) {
    std::vector<std::vector<float>> sent, received;
    std::vector<comm::Message> sends, receives;
    sent.reserve(2 * static_cast<std::size_t>(size));
    received.reserve(2 * static_cast<std::size_t>(size));
    for (int peer = 0; peer < size; ++peer) {
      if (peer == rank || is_silent(rank, peer)) continue;
      for (const int which : {0, 1}) {
        sent.push_back(noise_vector<float>(rank * 100 + peer * 2 + which + round, count(rank, peer, which)));
        sends.push_back({tensor_of(sent.back()), peer});
        received.emplace_back(static_cast<std::size_t>(count(peer, rank, which)));
        receives.push_back({tensor_of(received.back()), peer});
      }
    }
    collectives->exchange_all(world, sends, receives, *stream);
    stream->synchronize();
    std::size_t i = 0;
    for (int peer = 0; peer < size; ++peer) {
      if (peer == rank || is_silent(rank, peer)) continue;
      for (const int which : {0, 1}) {
        BOOST_TEST(
            (received[i++] == noise_vector<float>(peer * 100 + rank * 2 + which + round, count(peer, rank, which))),
            "message " << which << " of rank " << peer);
      }
    }
  }
}

BOOST_FIXTURE_TEST_CASE(exchange_all_refuses_what_it_cannot_send, CollectivesFixture) {
  std::vector<float> mine(12);
  const int other = (rank + 1) % size;
  const Tensor strided = tensor_of(mine).view({3, 4}).columns(0, 2);
  BOOST_CHECK_THROW(collectives->exchange_all(world, {{tensor_of(mine), rank}}, {}, *stream), std::logic_error);
  BOOST_CHECK_THROW(collectives->exchange_all(world, {{strided, other}}, {}, *stream), std::logic_error);
  BOOST_CHECK_THROW(collectives->exchange_all(world, {}, {{Tensor(), other}}, *stream), std::logic_error);
}

BOOST_FIXTURE_TEST_CASE(groups_work_side_by_side, CollectivesFixture) {
  const comm::Group parity = world.split(rank % 2, rank, "parity");
  std::vector<float> values = noise_vector<float>(rank, 5000);
  collectives->all_reduce(parity, tensor_of(values), comm::ReduceOp::sum, *stream);
  std::vector<float> part(10, static_cast<float>(rank)), parts(10 * static_cast<std::size_t>(parity.size()));
  collectives->all_gather(parity, tensor_of(parts), tensor_of(part), *stream);
  stream->synchronize();
  BOOST_TEST(same_on_all_ranks(parity, values));
  for (int r = 0; r < parity.size(); ++r) {
    BOOST_TEST(parts[static_cast<std::size_t>(r) * 10] == static_cast<float>(2 * r + rank % 2));
  }
}

BOOST_FIXTURE_TEST_CASE(agree_takes_no_collectives_of_tensors, CollectivesFixture) {
  std::vector<float> one(1), all(static_cast<std::size_t>(size));
  const auto refused = [&](const std::string& call, const std::function<void()>& work) {
    const std::string name = call + " over group world is called inside the work of agree";
    const auto names_it = [&](const comm::SharedError& error) {
      return std::string(error.what()).find(name) != std::string::npos;
    };
    if (size == 1) {
      BOOST_CHECK_NO_THROW(world.agree(work));
    } else {
      BOOST_CHECK_EXCEPTION(world.agree(work), comm::SharedError, names_it);
    }
  };
  const Tensor part = tensor_of(one), full = tensor_of(all);
  const comm::ReduceOp sum = comm::ReduceOp::sum;
  refused("allocate_shared", [&] { (void)collectives->allocate_shared(world, comm::MemoryUse::reduced, 8); });
  refused("make_collectives", [&] { (void)comm::make_collectives(*device, {world}); });
  refused("all_reduce", [&] { collectives->all_reduce(world, part, sum, *stream); });
  refused("all_gather", [&] { collectives->all_gather(world, full, part, *stream); });
  refused("reduce_scatter_add", [&] { collectives->reduce_scatter_add(world, part, full, *stream); });
  refused("reduce_scatter", [&] { collectives->reduce_scatter(world, full, *stream); });
  refused("exchange", [&] { collectives->exchange(world, part, rank, full.rows(0, 1), rank, *stream); });
  refused("exchange_all", [&] { collectives->exchange_all(world, {}, {}, *stream); });
  stream->synchronize();
  // A rank's own memory is no matter of the others.
  world.agree([&] { BOOST_TEST((collectives->allocate_own(world, 8) != nullptr)); });
}

BOOST_FIXTURE_TEST_CASE(wrong_tensors_are_a_bug, CollectivesFixture) {
  std::vector<float> full(static_cast<std::size_t>(4 * size + 1)), local(4);
  BOOST_CHECK_THROW(collectives->all_gather(world, tensor_of(full), tensor_of(local), *stream), std::logic_error);
  BOOST_CHECK_THROW(collectives->reduce_scatter_add(world, tensor_of(local), tensor_of(full), *stream),
                    std::logic_error);
  const Tensor strided = Tensor(full.data(), DType::float32, {2, 2}).columns(0, 1);
  BOOST_CHECK_THROW(collectives->all_reduce(world, strided, comm::ReduceOp::sum, *stream), std::logic_error);
}

}  // namespace sft::test

BOOST_AUTO_TEST_SUITE_END()
