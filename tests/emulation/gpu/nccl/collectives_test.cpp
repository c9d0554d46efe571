// SPDX-License-Identifier: Apache-2.0
// The emulated NCCL computes what NCCL does: every call, in and out of place, in groups, in any number of rounds.

#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <vector>

#include "ranks.hpp"
#include "runtime/stream_queue.hpp"

namespace {

using namespace sft::test;

/// Counts that are empty, odd, and larger than a slot of the board holds.
const std::vector<std::size_t> counts{0, 1, 13, 150001};

/// What rank `rank` sends as element i: sums of it depend on their order.
float value(int rank, std::size_t i) {
  return 1.0f / static_cast<float>(3 + rank) + static_cast<float>(i % 1000) * (rank % 2 == 0 ? 1e3f : -1e-3f);
}

std::vector<float> values(int rank, std::size_t count, std::size_t first = 0) {
  std::vector<float> result;
  for (std::size_t i = 0; i < count; ++i) result.push_back(value(rank, first + i));
  return result;
}

float sum_in_rank_order(int num_ranks, std::size_t i) {
  float sum = value(0, i);
  for (int rank = 1; rank < num_ranks; ++rank) sum += value(rank, i);
  return sum;
}

void check(ncclResult_t result, const Rank& rank) {
  expect(result == ncclSuccess, ncclGetLastError(rank.communicator()));
}

/// Runs `body(rank object, rank, count)` on 1, 2, 3 and 5 ranks for every count.
void on_all_sizes(const std::function<void(const Rank&, int, int, std::size_t)>& body) {
  for (const int num_ranks : {1, 2, 3, 5}) {
    const ncclUniqueId id = new_id();
    const std::vector<std::string> results = run_ranks(num_ranks, [&](int rank) {
      const Rank object(id, num_ranks, rank);
      for (const std::size_t count : counts) body(object, num_ranks, rank, count);
    });
    for (const std::string& result : results) BOOST_TEST(result == "", num_ranks << " ranks: " << result);
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(all_reduce_sums_in_the_order_of_ranks) {
  on_all_sizes([](const Rank& object, int num_ranks, int rank, std::size_t count) {
    const DeviceVector<float> in(values(rank, count)), out(std::vector<float>(count, 7.0f));
    check(ncclAllReduce(in.data(), out.data(), count, ncclFloat32, ncclSum, object.communicator(), object.stream()),
          object);
    check(ncclAllReduce(in.data(), in.data(), count, ncclFloat32, ncclSum, object.communicator(), object.stream()),
          object);
    object.synchronize();
    for (const std::vector<float>& result : {in.values(), out.values()}) {
      for (std::size_t i = 0; i < count; ++i) expect(result[i] == sum_in_rank_order(num_ranks, i), "sum");
    }
  });
}

BOOST_AUTO_TEST_CASE(maximum_of_doubles) {
  on_all_sizes([](const Rank& object, int num_ranks, int rank, std::size_t count) {
    const DeviceVector<double> x(std::vector<double>(count, rank == num_ranks / 2 ? 5.5 : -rank));
    check(ncclAllReduce(x.data(), x.data(), count, ncclFloat64, ncclMax, object.communicator(), object.stream()),
          object);
    object.synchronize();
    expect(x.values() == std::vector<double>(count, 5.5), "maximum");
  });
}

BOOST_AUTO_TEST_CASE(all_gather_in_and_out_of_place) {
  on_all_sizes([](const Rank& object, int num_ranks, int rank, std::size_t count) {
    const auto n = static_cast<std::size_t>(num_ranks);
    const DeviceVector<float> in(values(rank, count)), out(std::vector<float>(n * count, 7.0f));
    std::vector<float> own(n * count, 7.0f);
    const std::size_t first = static_cast<std::size_t>(rank) * count;
    for (std::size_t i = 0; i < count; ++i) own[first + i] = value(rank, i);
    const DeviceVector<float> in_place(own);
    const auto gather = [&](const float* send, float* receive) {
      check(ncclAllGather(send, receive, count, ncclFloat32, object.communicator(), object.stream()), object);
    };
    gather(in.data(), out.data());
    gather(in_place.data() + first, in_place.data());
    object.synchronize();
    for (const std::vector<float>& result : {in_place.values(), out.values()}) {
      for (std::size_t i = 0; i < n * count; ++i) {
        expect(result[i] == value(static_cast<int>(i / count), i % count), "all_gather");
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(reduce_scatter_in_and_out_of_place) {
  on_all_sizes([](const Rank& object, int num_ranks, int rank, std::size_t count) {
    const std::size_t all = static_cast<std::size_t>(num_ranks) * count, first = static_cast<std::size_t>(rank) * count;
    const DeviceVector<float> full(values(rank, all)), piece(std::vector<float>(count, 7.0f));
    const auto reduce = [&](float* receive) {
      check(
          ncclReduceScatter(full.data(), receive, count, ncclFloat32, ncclSum, object.communicator(), object.stream()),
          object);
    };
    reduce(piece.data());
    reduce(full.data() + first);
    object.synchronize();
    const std::vector<float> out = piece.values(), in_place = full.values();
    for (std::size_t i = 0; i < count; ++i) {
      expect(out[i] == sum_in_rank_order(num_ranks, first + i) && in_place[first + i] == out[i], "reduce_scatter");
    }
  });
}

BOOST_AUTO_TEST_CASE(broadcast_and_reduce_from_and_to_the_last_rank) {
  on_all_sizes([](const Rank& object, int num_ranks, int rank, std::size_t count) {
    const DeviceVector<float> sent(values(rank, count)), summed(values(rank, count));
    const int root = num_ranks - 1;
    check(ncclBroadcast(sent.data(), sent.data(), count, ncclFloat32, root, object.communicator(), object.stream()),
          object);
    check(ncclReduce(summed.data(), rank == root ? summed.data() : nullptr, count, ncclFloat32, ncclSum, root,
                     object.communicator(), object.stream()),
          object);
    object.synchronize();
    const std::vector<float> got = sent.values(), sums = summed.values();
    for (std::size_t i = 0; i < count; ++i) {
      expect(got[i] == value(root, i), "broadcast");
      expect(sums[i] == (rank == root ? sum_in_rank_order(num_ranks, i) : value(rank, i)), "reduce");
    }
  });
}

BOOST_AUTO_TEST_CASE(an_all_to_all_of_grouped_messages) {
  on_all_sizes([](const Rank& object, int num_ranks, int rank, std::size_t count) {
    const auto n = static_cast<std::size_t>(num_ranks);
    const DeviceVector<float> out(values(rank, n * count)), in(std::vector<float>(n * count, 7.0f));
    check(ncclGroupStart(), object);
    for (int peer = 0; peer < num_ranks; ++peer) {  // itself among them
      const std::size_t first = static_cast<std::size_t>(peer) * count;
      check(ncclSend(out.data() + first, count, ncclFloat32, peer, object.communicator(), object.stream()), object);
      check(ncclRecv(in.data() + first, count, ncclFloat32, peer, object.communicator(), object.stream()), object);
    }
    check(ncclGroupEnd(), object);
    object.synchronize();
    const std::vector<float> got = in.values();
    for (std::size_t i = 0; i < n * count; ++i) {
      const std::size_t sent = static_cast<std::size_t>(rank) * count + i % count;
      expect(got[i] == value(static_cast<int>(i / count), sent), "message");
    }
  });
}

BOOST_AUTO_TEST_CASE(several_messages_between_two_ranks_keep_their_order_and_groups_their_collectives) {
  const ncclUniqueId id = new_id();
  const std::vector<std::string> results = run_ranks(2, [&](int rank) {
    const Rank object(id, 2, rank);
    const DeviceVector<float> x(values(rank, 40000)), y(std::vector<float>(40000)), sum(values(rank, 5));
    const auto send = [&](std::size_t first, std::size_t count) {
      check(ncclSend(x.data() + first, count, ncclFloat32, 1 - rank, object.communicator(), object.stream()), object);
    };
    const auto receive = [&](std::size_t first, std::size_t count) {
      check(ncclRecv(y.data() + first, count, ncclFloat32, 1 - rank, object.communicator(), object.stream()), object);
    };
    check(ncclGroupStart(), object);
    send(0, 30000), send(30000, 3), send(30003, 9997);
    receive(0, 30000), receive(30000, 3), receive(30003, 9997);
    check(ncclAllReduce(sum.data(), sum.data(), 5, ncclFloat32, ncclSum, object.communicator(), object.stream()),
          object);
    check(ncclGroupEnd(), object);
    object.synchronize();
    expect(y.values() == values(1 - rank, 40000), "messages");
    for (std::size_t i = 0; i < 5; ++i) expect(sum.values()[i] == sum_in_rank_order(2, i), "sum");
  });
  for (const std::string& result : results) BOOST_TEST(result == "");
}

BOOST_AUTO_TEST_CASE(nothing_runs_before_the_stream_comes_to_it) {
  const ncclUniqueId id = new_id();
  const std::vector<std::string> results = run_ranks(2, [&](int rank) {
    const Rank object(id, 2, rank);
    const DeviceVector<float> x(std::vector<float>(8, 1.0f));
    cudaMemsetAsync(x.data(), 0, 16, object.stream());
    check(ncclAllReduce(x.data(), x.data(), 8, ncclFloat32, ncclSum, object.communicator(), object.stream()), object);
    cudaMemsetAsync(x.data() + 7, 0, 4, object.stream());
    object.synchronize();
    expect(x.values() == std::vector<float>({0, 0, 0, 0, 2, 2, 2, 0}), "order");
  });
  for (const std::string& result : results) BOOST_TEST(result == "");
}
