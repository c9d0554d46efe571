// SPDX-License-Identifier: Apache-2.0
// Collectives on memory that the ranks of a node share, beside the same calls on ordinary memory, which send messages.
#include <mpi.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "sft/core/dtype.hpp"
#include "support/barrier.hpp"
#include "support/collectives_fixture.hpp"
#include "support/collectives_memory.hpp"
#include "support/device_around.hpp"
#include "support/file_size_limit.hpp"
#include "window_faults.hpp"

namespace sft::test {

namespace {

using comm::MemoryUse;

const std::vector<std::int64_t> element_counts = {1, 7, 1000, 16'384, 16'385, 70'001, 300'001};

struct Windows : CollectivesFixture {
  /// Memory of `count` numbers for each rank of `group`.
  device::Device::Block allocate(const comm::Group& group, MemoryUse use, std::int64_t count) {
    return test::allocate_for_collectives(*collectives, group, use, static_cast<std::size_t>(count) * sizeof(double));
  }

  template <class T>
  Tensor put(const device::Device::Block& block, const std::vector<T>& values, DType dtype) {
    std::memcpy(block.get(), values.data(), values.size() * sizeof(T));
    return {block.get(), dtype, {std::ssize(values)}};
  }

  template <class T>
  void compare_all_reduce(const comm::Group& group, const device::Device::Block& block, DType dtype, comm::ReduceOp op,
                          std::int64_t count) {
    std::vector<T> by_messages = noise_vector<T>(rank, count);
    const Tensor in_window = put(block, by_messages, dtype);
    collectives->all_reduce(group, tensor_of(by_messages, dtype), op, *stream);
    collectives->all_reduce(group, in_window, op, *stream);
    stream->synchronize();
    const std::size_t bytes = by_messages.size() * sizeof(T);
    BOOST_TEST(std::memcmp(block.get(), by_messages.data(), bytes) == 0,
               name_of(dtype) << " x " << count << " over " << group.name() << " of " << group.size());
  }

  void compare_reduce_scatter(const comm::Group& group, const device::Device::Block& block, std::int64_t count) {
    std::vector<float> by_messages = noise_vector<float>(rank, count * group.size());
    std::vector<float> first(static_cast<std::size_t>(count), 0.25F), second = first;
    const Tensor in_window = put(block, by_messages, DType::float32);
    collectives->reduce_scatter_add(group, tensor_of(first), tensor_of(by_messages), *stream);
    collectives->reduce_scatter_add(group, tensor_of(second), in_window, *stream);
    stream->synchronize();
    BOOST_TEST((first == second), count << " elements over " << group.name() << " of " << group.size());
  }

  void compare_all_gather(const comm::Group& group, const device::Device::Block& block, std::int64_t count) {
    std::vector<float> part = noise_vector<float>(rank, count);
    std::vector<float> by_messages(part.size() * static_cast<std::size_t>(group.size()));
    const Tensor in_window(block.get(), DType::float32, {std::ssize(by_messages)});
    collectives->all_gather(group, tensor_of(by_messages), tensor_of(part), *stream);
    for (const bool in_place : {false, true}) {
      collectives->all_gather(group, in_window,
                              in_place ? in_window.rows(group.rank() * count, count) : tensor_of(part), *stream);
      stream->synchronize();
      BOOST_TEST(std::memcmp(block.get(), by_messages.data(), in_window.size_bytes()) == 0,
                 count << " elements over " << group.name() << " of " << group.size());
      barrier(group);  // before any rank gathers there again
    }
  }

  const std::int64_t most = element_counts.back();
};

/// Whether the ranks' blocks are one memory.
bool is_common(const comm::Group& group, const device::Device::Block& block) {
  auto& number = *static_cast<volatile std::int64_t*>(block.get());
  if (group.rank() == 0) number = 1;
  barrier(group);
  if (group.rank() == group.size() - 1) number = 4711;
  barrier(group);
  return number == 4711;
}

/// As if this process might map that much more and no byte beyond.
class AddressLimit {
 public:
  explicit AddressLimit(std::size_t more_bytes) {
    std::size_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    ::getrlimit(RLIMIT_AS, &former_);
    const rlimit limit = {pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)) + more_bytes, former_.rlim_max};
    ::setrlimit(RLIMIT_AS, &limit);
  }
  ~AddressLimit() { ::setrlimit(RLIMIT_AS, &former_); }
  AddressLimit(const AddressLimit&) = delete;
  AddressLimit& operator=(const AddressLimit&) = delete;

 private:
  rlimit former_{};
};

/// Whether this rank can receive a large message while its sender makes no call. In MPICH the sender has to take part.
bool receives_alone() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  MPI_Get_library_version(text, &length);
  return std::string(text).starts_with("Open MPI");
}

}  // namespace

BOOST_AUTO_TEST_SUITE(windows)

BOOST_FIXTURE_TEST_CASE(ranks_of_a_node_gather_into_one_memory, Windows) {
  const auto block = allocate(world, MemoryUse::gathered, 1000);
  BOOST_TEST((is_common(world, block) || size == 1));
  const auto own = allocate(world, MemoryUse::reduced, 1000);
  BOOST_TEST((!is_common(world, own) || rank == size - 1));
}

BOOST_FIXTURE_TEST_CASE(gathers_are_those_of_messages, Windows) {
  const auto block = allocate(world, MemoryUse::gathered, most * size);
  for (const std::int64_t count : element_counts) compare_all_gather(world, block, count);
}

BOOST_FIXTURE_TEST_CASE(reductions_have_the_bits_of_messages, Windows) {
  const auto block = allocate(world, MemoryUse::reduced, most);
  for (const std::int64_t count : element_counts) {
    for (const comm::ReduceOp op : {comm::ReduceOp::sum, comm::ReduceOp::max}) {
      compare_all_reduce<float>(world, block, DType::float32, op, count);
      compare_all_reduce<double>(world, block, DType::float64, op, count);
    }
  }
}

BOOST_FIXTURE_TEST_CASE(reduce_scatters_have_the_bits_of_messages, Windows) {
  const auto block = allocate(world, MemoryUse::reduced, most * size);
  for (const std::int64_t count : element_counts) compare_reduce_scatter(world, block, count);
}

BOOST_FIXTURE_TEST_CASE(sums_in_windows_need_no_staging_memory, Windows) {
  if (size == 1) return;
  const auto block = allocate(world, MemoryUse::reduced, std::max(5'000 * size, 50'000));
  auto* end = static_cast<std::byte*>(staging.take(0));
  std::byte* begin = end - staging.used_bytes();
  std::memset(begin, 0x5a, staging.used_bytes());
  const Tensor full = put(block, noise_vector<float>(rank, 10'000 * size), DType::float32);
  std::vector<float> part(10'000);
  collectives->reduce_scatter_add(world, tensor_of(part), full, *stream);
  collectives->all_reduce(world, Tensor(block.get(), DType::float32, {100'000}), comm::ReduceOp::sum, *stream);
  stream->synchronize();
  BOOST_TEST(std::all_of(begin, end, [](std::byte byte) { return byte == std::byte{0x5a}; }));
}

BOOST_FIXTURE_TEST_CASE(subgroups_have_windows_of_their_own, Windows) {
  const comm::Group parity = world.split(rank % 2, rank, "parity"), pair = world.split(rank / 2, rank, "pair");
  const auto of_parity = allocate(parity, MemoryUse::reduced, most), of_pair = allocate(pair, MemoryUse::reduced, most);
  const auto gathered = allocate(parity, MemoryUse::gathered, 16'385 * parity.size());
  for (const std::int64_t count : {std::int64_t{7}, std::int64_t{16'385}, std::int64_t{30'001}}) {
    compare_all_reduce<float>(parity, of_parity, DType::float32, comm::ReduceOp::sum, count);
    compare_all_reduce<float>(pair, of_pair, DType::float32, comm::ReduceOp::sum, count);
    // In a window of another group, and so by messages.
    compare_all_reduce<float>(pair, of_parity, DType::float32, comm::ReduceOp::sum, count);
    compare_reduce_scatter(pair, of_pair, count);
  }
  compare_all_gather(parity, gathered, 16'385);
}

BOOST_FIXTURE_TEST_CASE(many_calls_of_two_streams_are_under_way_at_a_time, Windows) {
  const auto other = device->make_stream();
  constexpr std::int64_t num_calls = 60, count = 3000;
  const auto block = allocate(world, MemoryUse::reduced, num_calls * count);
  const auto gathered = allocate(world, MemoryUse::gathered, num_calls * size);
  std::vector<float> parts(num_calls);
  for (std::int64_t call = 0; call < num_calls; ++call) {
    device::Stream& queue = call % 3 == 0 ? *other : *stream;
    const Tensor values(static_cast<float*>(block.get()) + call * count, DType::float32, {count});
    std::fill_n(values.as<float>(), count, static_cast<float>(rank + call));
    collectives->all_reduce(world, values, comm::ReduceOp::sum, queue);
    parts[static_cast<std::size_t>(call)] = static_cast<float>(rank * 1000 + call);
    collectives->all_gather(world, Tensor(static_cast<float*>(gathered.get()) + call * size, DType::float32, {size}),
                            tensor_of(parts).rows(call, 1), queue);
    if (call % (rank + 5) == 0) (call % 2 == 0 ? *other : *stream).synchronize();  // ranks do not keep pace
  }
  (rank % 2 == 0 ? *other : *stream).synchronize();
  (rank % 2 == 0 ? *stream : *other).synchronize();
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
}

BOOST_FIXTURE_TEST_CASE(a_buffer_serves_again_as_soon_as_its_call_is_over, Windows) {
  // A rank that did not wait for the others to have read its numbers would change them under their hands.
  const auto block = allocate(world, MemoryUse::reduced, 40'000 * size);
  std::vector<float> sum(40'000);
  std::int64_t num_wrong = 0;
  for (int round = 0; round < 50; ++round) {
    const std::int64_t count = round % 2 == 0 ? 40'000 : 500;
    const Tensor full(block.get(), DType::float32, {count * size});
    std::fill_n(full.as<float>(), full.num_elements(), static_cast<float>(round));
    std::fill(sum.begin(), sum.end(), 0.0F);
    collectives->reduce_scatter_add(world, tensor_of(sum).rows(0, count), full, *stream);
    stream->synchronize();
    const Tensor values(block.get(), DType::float32, {count});
    std::fill_n(values.as<float>(), count, 1.0F);
    collectives->all_reduce(world, values, comm::ReduceOp::sum, *stream);
    stream->synchronize();
    for (std::int64_t i = 0; i < count; ++i) {
      num_wrong += sum[static_cast<std::size_t>(i)] != static_cast<float>(round * size);
      num_wrong += values.as<float>()[i] != static_cast<float>(size);
    }
  }
  BOOST_TEST(num_wrong == 0);
}

BOOST_FIXTURE_TEST_CASE(who_waits_in_a_window_lets_messages_go_on, Windows) {
  // Rank 0 has received all that rank 1 sends, but MPI still has to tell rank 1 so, which it cannot while rank 1 is
  // away and the way there is full of small messages. Only later calls of MPI on rank 0 can: those of its wait in a
  // window.
  if (size == 1 || !receives_alone()) return;
  constexpr int num_small = 300;
  const auto flags = allocate(world, MemoryUse::gathered, 2);
  const auto block = allocate(world, MemoryUse::reduced, 8);
  auto* const is_sent = static_cast<std::atomic<int>*>(flags.get());
  std::atomic<int>* const is_received = is_sent + 1;
  if (rank == 0) new (flags.get()) std::atomic<int>[2] {};
  MPI_Comm apart = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &apart);
  std::vector<char> large(1'000'000), small(num_small);
  std::vector<MPI_Request> sends(num_small, MPI_REQUEST_NULL);
  const auto wait_for = [](const std::atomic<int>& flag) {
    while (flag == 0) std::this_thread::yield();
  };
  if (rank == 0) {
    wait_for(*is_sent);
    for (auto& send : sends) MPI_Isend(small.data(), 1, MPI_BYTE, 1, 0, apart, &send);
    MPI_Recv(large.data(), 1'000'000, MPI_BYTE, 1, 0, apart, MPI_STATUS_IGNORE);
    *is_received = 1;
  }
  if (rank == 1) {
    MPI_Request send = MPI_REQUEST_NULL;
    MPI_Isend(large.data(), 1'000'000, MPI_BYTE, 0, 0, apart, &send);
    *is_sent = 1;
    wait_for(*is_received);
    MPI_Wait(&send, MPI_STATUS_IGNORE);
  }
  std::fill_n(static_cast<float*>(block.get()), 4, 1.0F);
  collectives->all_reduce(world, Tensor(block.get(), DType::float32, {4}), comm::ReduceOp::sum, *stream);
  stream->synchronize();
  BOOST_TEST(*static_cast<float*>(block.get()) == static_cast<float>(size));
  if (rank == 1) {
    for (char& byte : small) MPI_Recv(&byte, 1, MPI_BYTE, 0, 0, apart, MPI_STATUS_IGNORE);
  }
  MPI_Waitall(num_small, sends.data(), MPI_STATUSES_IGNORE);
  MPI_Comm_free(&apart);
}

BOOST_FIXTURE_TEST_CASE(without_room_for_windows_messages_are_sent, Windows) {
  std::optional<NoWindows> no_windows(std::in_place);
  const auto gathered = allocate(world, MemoryUse::gathered, 20'000 * size);
  const auto reduced = allocate(world, MemoryUse::reduced, 20'000 * size);
  no_windows.reset();
  BOOST_TEST((!is_common(world, gathered) || rank == size - 1));
  compare_all_gather(world, gathered, 20'000);
  compare_reduce_scatter(world, reduced, 20'000);
  compare_all_reduce<float>(world, reduced, DType::float32, comm::ReduceOp::sum, 20'000);
}

BOOST_FIXTURE_TEST_CASE(where_one_rank_cannot_have_a_window_none_has, Windows) {
  if (size == 1) return;
  constexpr std::size_t bytes = std::size_t{8} << 20;
  for (const int bad : {0, size - 1}) {
    const auto refused = [&](const char* what) {
      BOOST_TEST((collectives->allocate_shared(world, MemoryUse::gathered, bytes) == nullptr),
                 what << " of rank " << bad);
    };
    {
      std::optional<NoWindows> none;
      if (rank == bad) none.emplace();
      refused("the file system");
    }
    {
      std::optional<FileSizeLimit> less;
      if (rank == bad) less.emplace(bytes / 2);
      refused("the limit of files");
    }
    {
      std::optional<AddressLimit> less;
      if (rank == bad) less.emplace(bytes / 2);
      refused("the limit of addresses");
    }
    WindowFaults::mpi_fails = rank == bad;
    refused("MPI");
    WindowFaults::mpi_fails = false;
    WindowFaults::pages_fail = rank == bad;
    refused("the pages");
    WindowFaults::pages_fail = false;
  }
  BOOST_TEST((collectives->allocate_shared(world, MemoryUse::gathered, bytes) != nullptr));
}

}  // namespace sft::test

BOOST_AUTO_TEST_SUITE_END()
