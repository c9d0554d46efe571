// SPDX-License-Identifier: Apache-2.0
// What the emulated NCCL refuses, reports, or lets hang as it is told.

#include <boost/test/unit_test.hpp>
#include <csignal>
#include <cstdlib>
#include <string>
#include <vector>

#include "ranks.hpp"
#include "runtime/stream_queue.hpp"

namespace {

using namespace sft::test;

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// Runs on two ranks that must all come to their end.
void on_two_ranks(const std::function<void(const Rank&, int)>& body) {
  const ncclUniqueId id = new_id();
  for (const std::string& result : run_ranks(2, [&](int rank) { body(Rank(id, 2, rank), rank); })) {
    BOOST_TEST(result == "");
  }
}

/// The call is refused with a text that has `part` in it.
void expect_refusal(ncclResult_t result, ncclComm_t communicator, const std::string& part) {
  expect(result != ncclSuccess, "not refused: " + part);
  const std::string text = ncclGetLastError(communicator);
  expect(contains(text, part), "refused for another reason than " + part + ": " + text);
}

}  // namespace

BOOST_AUTO_TEST_CASE(arguments_that_are_wrong_on_one_rank_are_refused_there) {
  on_two_ranks([](const Rank& object, int) {
    const ncclComm_t comm = object.communicator();
    const cudaStream_t stream = object.stream();
    const DeviceVector<float> x(std::vector<float>(64)), y(std::vector<float>(64));
    std::vector<float> host(64);
    const auto reduce = [&](const void* in, void* out, std::size_t count) {
      return ncclAllReduce(in, out, count, ncclFloat32, ncclSum, comm, stream);
    };
    expect_refusal(reduce(host.data(), y.data(), 4), comm, "pageable");
    expect_refusal(reduce(x.data(), y.data(), 10000), comm, "reaches out of its allocation");
    expect_refusal(reduce(nullptr, y.data(), 4), comm, "is null");
    expect_refusal(reduce(reinterpret_cast<char*>(x.data()) + 2, y.data(), 4), comm, "not aligned");
    expect_refusal(reduce(x.data(), x.data() + 2, 4), comm, "overlap");
    expect_refusal(ncclAllGather(x.data(), x.data() + 1, 8, ncclFloat32, comm, stream), comm, "overlap");
    expect_refusal(ncclReduceScatter(x.data(), x.data() + 1, 8, ncclFloat32, ncclSum, comm, stream), comm, "overlap");
    expect_refusal(ncclAllReduce(x.data(), y.data(), 4, ncclFloat32, ncclProd, comm, stream), comm, "ncclProd");
    expect_refusal(ncclAllReduce(x.data(), y.data(), 4, ncclNumTypes, ncclSum, comm, stream), comm, "data type");
    expect_refusal(ncclBroadcast(x.data(), y.data(), 4, ncclFloat32, 2, comm, stream), comm, "root 2");
    expect_refusal(ncclSend(x.data(), 4, ncclFloat32, 2, comm, stream), comm, "rank 2 is none");
    ncclGroupStart();
    (void)ncclSend(x.data(), 8, ncclFloat32, 0, comm, stream);
    (void)ncclRecv(x.data() + 4, 8, ncclFloat32, 0, comm, stream);
    expect_refusal(ncclGroupEnd(), comm, "calls of one group share memory");
    ncclGroupStart();
    (void)ncclSend(x.data(), 8, ncclFloat32, 7, comm, stream);
    expect_refusal(ncclGroupEnd(), comm, "rank 7 is none");
    expect(ncclGroupEnd() == ncclInvalidUsage, "an end without a start");
  });
}

BOOST_AUTO_TEST_CASE(a_stream_of_another_device_is_refused) {
  ::setenv("SFT_EMULATED_GPUS", "2", 1);
  on_two_ranks([](const Rank& object, int) {
    const DeviceVector<float> x(std::vector<float>(4));
    cudaStream_t other = nullptr;
    cudaSetDevice(1);
    cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking);
    cudaSetDevice(0);
    expect_refusal(ncclAllReduce(x.data(), x.data(), 4, ncclFloat32, ncclSum, object.communicator(), other),
                   object.communicator(), "a stream of device 1 for a communicator of device 0");
    cudaStreamDestroy(other);
  });
  ::unsetenv("SFT_EMULATED_GPUS");
}

BOOST_AUTO_TEST_CASE(a_communicator_cannot_be_used_after_its_end) {
  on_two_ranks([](const Rank& object, int rank) {
    const DeviceVector<float> x(std::vector<float>(4));
    ncclComm_t second = nullptr;
    ncclUniqueId id = new_id();
    // Rank 0's id goes to rank 1 through the first communicator.
    const DeviceVector<ncclUniqueId> ids({id});
    expect(ncclBroadcast(ids.data(), ids.data(), sizeof id, ncclUint8, 0, object.communicator(), object.stream()) ==
               ncclSuccess,
           ncclGetLastError(object.communicator()));
    object.synchronize();
    expect(ncclCommInitRank(&second, 2, ids.values()[0], rank) == ncclSuccess, ncclGetLastError(nullptr));
    expect(ncclCommFinalize(second) == ncclSuccess, "ncclCommFinalize");
    expect_refusal(ncclAllReduce(x.data(), x.data(), 4, ncclFloat32, ncclSum, second, object.stream()), second,
                   "after ncclCommFinalize");
    expect(ncclCommDestroy(second) == ncclSuccess, "ncclCommDestroy");
    expect_refusal(ncclAllReduce(x.data(), x.data(), 4, ncclFloat32, ncclSum, second, object.stream()), nullptr,
                   "destroyed");
    expect(ncclCommDestroy(second) == ncclInvalidArgument, "destroyed twice");
  });
}

BOOST_AUTO_TEST_CASE(memory_outlives_its_registration) {
  on_two_ranks([](const Rank& object, int) {
    void *memory = nullptr, *handle = nullptr, *again = nullptr;
    expect(ncclMemAlloc(&memory, 1 << 16) == ncclSuccess, "ncclMemAlloc");
    expect(ncclCommRegister(object.communicator(), memory, 1 << 16, &handle) == ncclSuccess, "ncclCommRegister");
    expect_refusal(ncclCommRegister(object.communicator(), memory, 1 << 16, &again), nullptr, "twice");
    expect_refusal(ncclMemFree(memory), nullptr, "registered");
    expect(ncclCommDeregister(object.communicator(), handle) == ncclSuccess, "ncclCommDeregister");
    expect_refusal(ncclCommDeregister(object.communicator(), handle), nullptr, "no such registration");
    expect(ncclMemFree(memory) == ncclSuccess, "ncclMemFree");
  });
}

BOOST_AUTO_TEST_CASE(ranks_that_call_different_things_are_told_both) {
  struct Pair {
    std::function<ncclResult_t(const Rank&, float*)> calls[2];
    std::string words[2];
  };
  const auto reduce = [](std::size_t count, ncclDataType_t type, ncclRedOp_t op) {
    return [=](const Rank& rank, float* x) {
      return ncclAllReduce(x, x, count, type, op, rank.communicator(), rank.stream());
    };
  };
  const auto gather = [](const Rank& rank, float* x) {
    return ncclAllGather(x, x + 32, 4, ncclFloat32, rank.communicator(), rank.stream());
  };
  const auto send = [](std::size_t count) {
    return [=](const Rank& rank, float* x) {
      return ncclSend(x, count, ncclFloat32, 1, rank.communicator(), rank.stream());
    };
  };
  const auto receive = [](std::size_t count) {
    return [=](const Rank& rank, float* x) {
      return ncclRecv(x, count, ncclFloat32, 0, rank.communicator(), rank.stream());
    };
  };
  const std::vector<Pair> pairs{
      {{reduce(4, ncclFloat32, ncclSum), reduce(5, ncclFloat32, ncclSum)},
       {"ncclAllReduce of 4 ncclFloat32", "ncclAllReduce of 5 ncclFloat32"}},
      {{reduce(4, ncclFloat32, ncclSum), reduce(4, ncclInt32, ncclSum)}, {"ncclFloat32", "ncclInt32"}},
      {{reduce(4, ncclFloat32, ncclSum), reduce(4, ncclFloat32, ncclMax)}, {"ncclSum", "ncclMax"}},
      {{reduce(4, ncclFloat32, ncclSum), gather}, {"ncclAllReduce of 4", "ncclAllGather of 4"}},
  };
  for (const Pair& pair : pairs) {
    const ncclUniqueId id = new_id();
    for (const std::string& result : run_ranks(2, [&](int rank) {
           const Rank object(id, 2, rank);
           const DeviceVector<float> x(std::vector<float>(64));
           expect(pair.calls[rank](object, x.data()) == ncclSuccess, "queued");
           const std::string text = wait_for({&object});
           expect(contains(text, pair.words[0]) && contains(text, pair.words[1]), "names both: " + text);
           expect(pair.calls[rank](object, x.data()) == ncclInvalidUsage, "the communicator stays broken");
         })) {
      BOOST_TEST(result == "");
    }
  }
  // A receiver sees what its sender sends; the sender waits for one that takes it.
  const ncclUniqueId id = new_id();
  Signal has_seen;
  for (const std::string& result : run_ranks(2, [&](int rank) {
         const Rank object(id, 2, rank);
         const DeviceVector<float> x(std::vector<float>(64));
         expect((rank == 0 ? send(4)(object, x.data()) : receive(5)(object, x.data())) == ncclSuccess, "queued");
         if (rank == 0) {
           expect(wait_for({&object}, [&] { return has_seen.is_given(); }) == "still waiting", "the sender waits");
         } else {
           const std::string text = wait_for({&object});
           has_seen.give();
           expect(contains(text, "receives 5 ncclFloat32") && contains(text, "ncclSend of 4"), text);
         }
         ncclCommAbort(object.communicator());
       })) {
    BOOST_TEST(result == "");
  }
}

BOOST_AUTO_TEST_CASE(one_rank_never_arrives_when_told_so) {
  ::setenv("SFT_EMULATED_NCCL_HANG", "fsdp:1:2", 1);
  const ncclUniqueId id = new_id(), other_id = new_id();
  const std::vector<std::string> results = run_ranks(2, [&](int rank) {
    const Rank other(other_id, 2, rank, "tp"), object(id, 2, rank, "fsdp");
    const DeviceVector<float> x(std::vector<float>(4)), y(std::vector<float>(4));
    const auto reduce = [](const Rank& on, float* data) {
      return ncclAllReduce(data, data, 4, ncclFloat32, ncclSum, on.communicator(), on.stream());
    };
    for (int i = 0; i < 3; ++i) expect(reduce(other, y.data()) == ncclSuccess, "queued");
    expect(wait_for({&other}) == "", "another communicator goes on");
    expect(reduce(object, x.data()) == ncclSuccess, "queued");
    expect(wait_for({&object}) == "", "the first comes");
    expect(reduce(object, x.data()) == ncclSuccess, "queued");
    expect(wait_for({&object}, after_many_polls()) == "still waiting", "the second does not, and nobody says so");
    ncclCommAbort(object.communicator());
    object.synchronize();  // an aborted communicator lets the stream go on
  });
  for (const std::string& result : results) BOOST_TEST(result == "");
  ::unsetenv("SFT_EMULATED_NCCL_HANG");
}

namespace {

/// Two communicators, each on a stream of its own; rank r queues them in the order that `is_tp_first(r)` says. Returns
/// what the ranks say at the end.
std::vector<std::string> queue_two(const std::function<bool(int)>& is_tp_first, unsigned seed) {
  const ncclUniqueId tp_id = new_id(), fsdp_id = new_id();
  return run_ranks(2, [&](int rank) {
    sft::emulation::set_seed(seed + static_cast<unsigned>(rank));
    const Rank tp(tp_id, 2, rank, "tp"), fsdp(fsdp_id, 2, rank, "fsdp");
    const DeviceVector<float> x(std::vector<float>(4, 1.0f)), y(std::vector<float>(4, 1.0f));
    const auto reduce = [](const Rank& on, float* data) {
      expect(ncclAllReduce(data, data, 4, ncclFloat32, ncclSum, on.communicator(), on.stream()) == ncclSuccess, "");
    };
    if (is_tp_first(rank)) reduce(tp, x.data());
    reduce(fsdp, y.data());
    if (!is_tp_first(rank)) reduce(tp, x.data());
    const std::string end = wait_for({&tp, &fsdp});
    ncclCommAbort(tp.communicator());
    ncclCommAbort(fsdp.communicator());
    expect(end.empty(), end);
    expect(x.values() == y.values(), "sums");
  });
}

}  // namespace

BOOST_AUTO_TEST_CASE(with_an_implicit_order_the_host_order_counts) {
  ::setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", 1);
  for (unsigned seed = 0; seed < 10; ++seed) {
    for (const std::string& result : queue_two([](int) { return true; }, 10 * seed)) BOOST_TEST(result == "");
  }
  for (const std::string& result : queue_two([](int rank) { return rank == 0; }, 0)) {
    BOOST_TEST(contains(result, "possible deadlock"), result);
    BOOST_TEST(contains(result, "communicator tp, rank"), result);
    BOOST_TEST(contains(result, "communicator fsdp, rank"), result);
  }
  ::unsetenv("NCCL_LAUNCH_ORDER_IMPLICIT");
}

BOOST_AUTO_TEST_CASE(without_it_even_the_same_host_order_may_deadlock) {
  int num_found = 0;
  for (unsigned seed = 0; seed < 20 && num_found == 0; ++seed) {
    const std::vector<std::string> results = queue_two([](int) { return true; }, 10 * seed);
    num_found += contains(results[0], "possible deadlock") && contains(results[1], "possible deadlock") ? 1 : 0;
  }
  BOOST_TEST(num_found == 1);
}

BOOST_AUTO_TEST_CASE(a_rank_that_dies_leaves_nothing_and_an_id_of_nobody_is_refused) {
  ncclUniqueId id = new_id();
  const std::vector<std::string> results = run_ranks(2, [&](int rank) {
    const Rank object(id, 2, rank);
    if (rank == 1) ::raise(SIGKILL);
    ncclCommAbort(object.communicator());
  });
  BOOST_TEST(results[0] == "");
  BOOST_TEST(results[1] != "");
  id.internal[8] = static_cast<char>(id.internal[8] ^ 1);  // another nonce
  const std::vector<std::string> refused = run_ranks(1, [&](int rank) { const Rank object(id, 1, rank); });
  BOOST_TEST(contains(refused[0], "no living process"), refused[0]);
}
