// SPDX-License-Identifier: Apache-2.0
// The device room on GPUs: two of them with 64 MiB each.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "checks/ends_with_fault.hpp"
#include "device/cuda_device.hpp"
#include "device/cuda_stream.hpp"
#include "runtime/stream_queue.hpp"
#include "sft/core/activity.hpp"
#include "sft/core/error.hpp"
#include "sft/core/gpu_launches.hpp"
#include "sft/device/arena.hpp"
#include "sft/device/factory.hpp"
#include "sft/device/launch_tape.hpp"
#include "sft/machine/gpus.hpp"

namespace sft::device {

namespace {

constexpr std::size_t mebibyte = std::size_t{1} << 20U;

struct Machine {
  std::unique_ptr<Device> device = make_device(Kind::cuda, {.num_local_ranks = 2, .gpu = 1});
  std::unique_ptr<Stream> stream = device->make_stream();
};

}  // namespace

BOOST_AUTO_TEST_CASE(the_gpus_are_seen_with_what_tells_them_apart) {
  const machine::VisibleGpus visible = machine::visible_gpus();
  BOOST_TEST_REQUIRE(visible.gpus.size() == 2u);
  BOOST_TEST(visible.problem == "");
  BOOST_TEST(visible.gpus[0].uuid != visible.gpus[1].uuid);
  for (const machine::Gpu& gpu : visible.gpus) {
    BOOST_TEST(gpu.uuid.size() == std::string("GPU-00000000-0000-0000-0000-000000000000").size());
    BOOST_TEST(gpu.compute_capability >= machine::least_compute_capability);
    BOOST_TEST(gpu.memory_bytes == 64 * mebibyte);
  }
}

BOOST_FIXTURE_TEST_CASE(the_gpu_that_was_taken_is_one_of_them, Machine) {
  const OwnGpu own = own_gpu();
  BOOST_TEST(own.index == 1);
  BOOST_TEST(own.uuid == machine::visible_gpus().gpus[1].uuid);
  BOOST_TEST(own.clock_hz > 1e9);
  BOOST_TEST(own.memory_bytes_per_second > 1e12);  // of an A100: 1.555e12
}

// A rank whose GPU computes for longer than ranks may stand still gets on all the same.
BOOST_FIXTURE_TEST_CASE(a_host_that_waits_sees_what_its_gpu_has_passed, Machine) {
  const Device::Block block = device->allocate(4096);
  const auto progress_of = [&](int num_marks) {
    const std::uint64_t before = progress();
    for (int i = 0; i < num_marks; ++i) {
      device->fill_zero(block.get(), 4096, *stream);
      stream->mark();
    }
    stream->synchronize();
    int num_tries = 0;
    device->wait_checks().wait_until([&] { return ++num_tries > 1; });  // asks the checks once
    return progress() - before;
  };
  constexpr int of_waiting = 8;  // what the host notes of its waits, at most
  BOOST_TEST(progress_of(0) <= of_waiting);
  for (const int num_marks : {100, 40}) {
    const std::uint64_t seen = progress_of(num_marks);
    BOOST_TEST((seen >= static_cast<std::uint64_t>(num_marks)));
    BOOST_TEST((seen <= static_cast<std::uint64_t>(num_marks + of_waiting)));
  }
  BOOST_TEST(progress_of(0) <= of_waiting);
}

BOOST_FIXTURE_TEST_CASE(memory_is_counted_and_its_peak_stays, Machine) {
  const OwnMemory before = device->own_memory().value();
  BOOST_TEST(before.total_bytes == 64 * mebibyte);
  BOOST_TEST(device->peak_bytes() == before.used_bytes);
  {
    Ledger ledger;
    const Arena arena(*device, ledger, Label::parameters, 8 * mebibyte);
    BOOST_TEST(device->own_memory()->used_bytes >= before.used_bytes + 8 * mebibyte);
    BOOST_TEST(ledger.node_bytes(Kind::cuda) == 0u);
  }
  BOOST_TEST(device->own_memory()->used_bytes == before.used_bytes);
  BOOST_TEST(device->peak_bytes() >= before.used_bytes + 8 * mebibyte);
}

BOOST_AUTO_TEST_CASE(ranks_that_share_a_gpu_count_their_part_of_it) {
  const auto device = make_device(Kind::cuda, {.num_local_ranks = 4, .num_sharing = 4});
  BOOST_TEST(device->own_memory()->total_bytes == 16 * mebibyte);
  BOOST_TEST(device->description().ends_with(", shared by 4 ranks"));
}

BOOST_FIXTURE_TEST_CASE(memory_that_is_not_there_is_an_error_that_says_where, Machine) {
  for (const Space space : {Space::device, Space::host}) {
    BOOST_CHECK_EXCEPTION((void)device->allocate(std::size_t{1} << 60, space), Error, [](const Error& error) {
      return std::string(error.what()).starts_with("cannot allocate 1048576.00 TiB");
    });
  }
}

namespace {

/// A stream with a tape, and memory that launches fill.
struct Taped : Machine {
  Taped() { BOOST_TEST_REQUIRE(stream->start_tape()); }

  /// A chain of fills of `count` bytes of the memory, from `begin` on, one byte each.
  void chain(std::size_t count, std::size_t begin = 0) {
    stream->tape()->start();
    for (std::size_t i = begin; i < begin + count; ++i) {
      device->fill_zero(static_cast<std::byte*>(on_gpu.get()) + i, 1, *stream);
    }
  }
  [[nodiscard]] std::size_t num_zeros() {
    auto* const host = static_cast<std::byte*>(pinned.get());
    device->copy(host, on_gpu.get(), bytes, *stream);
    stream->synchronize();
    return static_cast<std::size_t>(std::count(host, host + bytes, std::byte{0}));
  }
  void refill() {
    auto* const host = static_cast<std::byte*>(pinned.get());
    std::fill_n(host, bytes, std::byte{1});
    device->copy(on_gpu.get(), host, bytes, *stream);
    stream->synchronize();
  }

  static constexpr std::size_t bytes = 64;
  Device::Block on_gpu = device->allocate(bytes), pinned = device->allocate(bytes, Space::pinned);
};

}  // namespace

BOOST_FIXTURE_TEST_CASE(chains_that_come_again_are_graphs, Taped) {
  const emulation::HostCounts before = emulation::host_counts();
  for (int i = 0; i < 4; ++i) {
    for (const std::size_t count : {std::size_t{3}, std::size_t{5}}) {
      refill();
      chain(count);
      stream->tape()->stop();
      BOOST_TEST(num_zeros() == count);
    }
  }
  BOOST_TEST(stream->tape()->counts().recordings == 2);
  BOOST_TEST(emulation::host_counts().graph_launches - before.graph_launches == 6);
  BOOST_TEST(emulation::host_counts().graphs_alive - before.graphs_alive == 2);
  stream.reset();
  BOOST_TEST(emulation::host_counts().graphs_alive == before.graphs_alive);
}

BOOST_FIXTURE_TEST_CASE(chains_over_other_memory_are_other_chains, Taped) {
  for (int i = 0; i < 3; ++i) {
    refill();
    for (const std::size_t begin : {0, 8, 16}) {
      chain(4, begin);
      stream->tape()->settle();
    }
    stream->tape()->stop();
    BOOST_TEST(num_zeros() == 12u);
  }
  BOOST_TEST(stream->tape()->counts().recordings == 3);
}

// So that an error of a kernel in a graph names it.
BOOST_FIXTURE_TEST_CASE(a_chain_that_is_repeated_notes_its_launches_again, Taped) {
  for (int i = 0; i < 3; ++i) {
    const std::uint64_t before = num_launches();
    chain(2);
    for (const char* const name : {"first", "second"}) {
      stream->tape()->defer(std::array<std::uint64_t, 2>{99, 2}, [this, name] {
        note_launch(name, stream->native());
        device->fill_zero(on_gpu.get(), 1, *stream);
      });
    }
    stream->tape()->stop();
    const std::vector<const char*> launches = launches_since(before, stream->native());
    BOOST_TEST_REQUIRE(launches.size() >= 2u);
    BOOST_TEST(launches[launches.size() - 2] == std::string("first"));
    BOOST_TEST(launches.back() == std::string("second"));
  }
  BOOST_TEST(stream->tape()->counts().recordings == 1);
  BOOST_TEST(stream->tape()->counts().chains == 2);
  stream->synchronize();
}

// Whoever waits for a stream, or sees that its GPU has passed a mark, knows that no kernel before breaks off.
BOOST_FIXTURE_TEST_CASE(errors_of_kernels_name_no_launch_that_is_known_to_be_finished, Machine) {
  const auto is_named = [](const std::string& name) {
    try {
      throw_if_of_a_kernel(cudaErrorIllegalAddress, "an illegal memory access was encountered");
    } catch (const Error& error) {
      return std::string(error.what()).find(name) != std::string::npos;
    }
    return false;
  };
  const std::unique_ptr<Event> event = device->make_event();
  note_launch("before_the_wait", stream->native());
  BOOST_TEST(is_named("before_the_wait"));
  stream->synchronize();
  BOOST_TEST(!is_named("before_the_wait"));

  note_launch("before_the_event", stream->native());
  event->record(*stream);
  note_launch("behind_the_event", stream->native());
  event->synchronize();
  BOOST_TEST(!is_named("before_the_event"));
  BOOST_TEST(is_named("behind_the_event"));

  note_launch("before_the_mark", stream->native());
  stream->mark();
  note_launch("behind_the_mark", stream->native());
  int num_tries = 0;
  device->wait_checks().wait_until([&] { return !is_named("before_the_mark") || ++num_tries == 1000; });
  BOOST_TEST(!is_named("before_the_mark"));
  BOOST_TEST(is_named("behind_the_mark"));
  stream->synchronize();
}

BOOST_AUTO_TEST_CASE(errors_of_kernels_are_told_from_others) {
  for (const cudaError_t code : {cudaErrorIllegalAddress, cudaErrorLaunchTimeout, cudaErrorAssert,
                                 cudaErrorHardwareStackError, cudaErrorIllegalInstruction, cudaErrorMisalignedAddress,
                                 cudaErrorInvalidAddressSpace, cudaErrorInvalidPc, cudaErrorLaunchFailure}) {
    BOOST_TEST(is_of_a_kernel(code), static_cast<int>(code));
    BOOST_CHECK_EXCEPTION(check_cuda(code, "a call"), Error, [](const Error& error) {
      return std::string(error.what()).starts_with("a CUDA kernel failed (");
    });
  }
  for (const cudaError_t code : {cudaSuccess, cudaErrorInvalidValue, cudaErrorMemoryAllocation, cudaErrorNotReady}) {
    BOOST_TEST(!is_of_a_kernel(code), static_cast<int>(code));
  }
}

// Whatever is done with the stream, what was put off comes first.
BOOST_FIXTURE_TEST_CASE(what_is_put_off_comes_before_anything_else, Taped) {
  const std::unique_ptr<Stream> other = device->make_stream();
  const std::unique_ptr<Event> event = device->make_event(), of_other = device->make_event();
  const auto is_settled = [&](const auto& by) {
    refill();
    of_other->record(*other);
    const std::int64_t before = stream->tape()->counts().plain + stream->tape()->counts().repeated;
    chain(2);
    BOOST_TEST(stream->tape()->counts().plain + stream->tape()->counts().repeated == before);
    by();
    BOOST_TEST(stream->tape()->counts().plain + stream->tape()->counts().repeated == before + 2);
    stream->tape()->stop();
    BOOST_TEST(num_zeros() == 2u);
  };
  is_settled([&] { stream->synchronize(); });
  is_settled([&] { stream->wait(*of_other); });
  is_settled([&] { event->record(*stream); });
  is_settled([&] { stream->mark(); });
  is_settled([&] { (void)stream->native(); });
  is_settled([&] { device->copy(pinned.get(), on_gpu.get(), 1, *stream); });
  stream->synchronize();
}

// A stream is not made to wait for what it knows: for itself, twice for the same, for nothing.
BOOST_FIXTURE_TEST_CASE(a_chain_goes_on_behind_waits_that_change_nothing, Taped) {
  const std::unique_ptr<Stream> other = device->make_stream();
  const std::unique_ptr<Event> own = device->make_event(), never = device->make_event(),
                               of_other = device->make_event();
  own->record(*stream);
  of_other->record(*other);
  stream->wait(*of_other);
  refill();
  chain(2);
  for (Event* const event : {own.get(), never.get(), of_other.get()}) stream->wait(*event);
  BOOST_TEST(stream->tape()->counts().plain == 0);
  of_other->record(*other);  // now it stands for something else
  stream->wait(*of_other);
  BOOST_TEST(stream->tape()->counts().plain == 2);
  stream->tape()->stop();
  stream->synchronize();
}

// What a chain puts off may take long, and marks in it are left out when it is recorded.
BOOST_FIXTURE_TEST_CASE(a_chain_that_is_repeated_is_progress, Taped) {
  refill();
  constexpr int num_chains = 50, of_waiting = 8;  // what the host notes of its waits, at most
  const std::uint64_t before = progress();
  for (int i = 0; i < num_chains; ++i) {
    chain(2);
    stream->tape()->defer(std::array<std::uint64_t, 2>{98, 2}, [&] { stream->mark(); });
    stream->tape()->stop();
  }
  stream->synchronize();
  int num_tries = 0;
  device->wait_checks().wait_until([&] { return ++num_tries > 1; });
  BOOST_TEST(stream->tape()->counts().chains == num_chains - 1);
  BOOST_TEST(progress() - before >= num_chains);
  BOOST_TEST(progress() - before <= num_chains + of_waiting);
}

// A launch that a capture does not bear: the capture ends, and the launch is made.
BOOST_FIXTURE_TEST_CASE(a_launch_that_cannot_be_captured_is_made_plainly, Taped) {
  for (int i = 0; i < 3; ++i) {
    refill();
    chain(3);
    stream->tape()->defer(std::array<std::uint64_t, 2>{99, 2}, [&] {
      cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
      cudaStreamIsCapturing(native_stream(*stream), &status);
      if (status != cudaStreamCaptureStatusNone) throw Error(ExitStatus::failure, "not while it is captured");
      device->fill_zero(static_cast<std::byte*>(on_gpu.get()) + 3, 1, *stream);
    });
    stream->tape()->stop();
    BOOST_TEST(num_zeros() == 4u);
  }
  BOOST_TEST(stream->tape()->counts().plain == 12);
}

// A driver that does not record: one warning, and all goes on as it did.
BOOST_AUTO_TEST_CASE(launches_that_cannot_be_recorded_are_made_one_by_one) {
  for (const char* call : {"cudaStreamBeginCapture", "cudaStreamEndCapture", "cudaGraphInstantiate"}) {
    setenv("SFT_EMULATED_GRAPHS_REFUSE", call, 1);
    {
      Taped taped;
      for (int i = 0; i < 4; ++i) {
        taped.refill();
        taped.chain(3);
        taped.stream->tape()->stop();
        BOOST_TEST(taped.num_zeros() == 3u);
      }
      BOOST_TEST(taped.stream->tape()->counts().plain == 12);
      BOOST_TEST(taped.stream->tape()->counts().recordings == 0);
    }
    unsetenv("SFT_EMULATED_GRAPHS_REFUSE");
  }
}

namespace {

constexpr std::size_t block_bytes = mebibyte;

/// A GPU whose pinned memory has small blocks, two streams of it, and 3.5 blocks of memory on either side.
struct Blocks {
  static constexpr std::size_t bytes = 3 * block_bytes + block_bytes / 2;
  CudaDevice device{0, 1, block_bytes};
  std::unique_ptr<Stream> stream = device.make_stream(Priority::compute), other = device.make_stream(Priority::compute);
  Device::Block pinned = device.allocate(bytes, Space::pinned), on_gpu = device.allocate(bytes, Space::device);
  [[nodiscard]] std::byte* host() const { return static_cast<std::byte*>(pinned.get()); }
  [[nodiscard]] std::byte* gpu() const { return static_cast<std::byte*>(on_gpu.get()); }
};

std::size_t num_pages(std::size_t bytes) {
  const auto page_bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return (bytes + page_bytes - 1) / page_bytes;
}

/// Of the memory from `begin`, the start of a page, on: those that the system has memory for.
std::size_t num_resident_pages(void* begin, std::size_t bytes) {
  std::vector<unsigned char> states(num_pages(bytes));
  BOOST_TEST_REQUIRE(mincore(begin, bytes, states.data()) == 0);
  return static_cast<std::size_t>(std::ranges::count_if(states, [](unsigned char state) { return state % 2 == 1; }));
}

}  // namespace

// A driver that pins pages which are not there makes them one by one, on one thread.
BOOST_FIXTURE_TEST_CASE(pinned_memory_in_blocks_is_there_before_it_is_pinned, Blocks) {
  const Device::Block untouched = device.allocate(bytes, Space::host);
  BOOST_TEST(num_resident_pages(untouched.get(), bytes) == 0u);
  BOOST_TEST(num_resident_pages(pinned.get(), bytes) == num_pages(bytes));
  BOOST_TEST(std::all_of(host(), host() + bytes, [](std::byte x) { return x == std::byte{0}; }));
}

BOOST_FIXTURE_TEST_CASE(pinned_memory_in_blocks_is_copied_across_them, Blocks) {
  for (std::size_t i = 0; i < bytes; ++i) host()[i] = static_cast<std::byte>(i * 7 % 251);
  const Device::Block back = device.allocate(bytes, Space::pinned);
  device.copy(gpu(), host(), bytes, *stream);
  // From the middle of a block to that of another one, both ends within blocks.
  constexpr std::size_t begin = block_bytes / 3, count = 2 * block_bytes + 5;
  device.copy(static_cast<std::byte*>(back.get()) + 1, gpu() + begin, count, *stream);
  const long before = emulation::host_counts().pageable_copies;
  stream->synchronize();
  BOOST_TEST(std::memcmp(static_cast<std::byte*>(back.get()) + 1, host() + begin, count) == 0);
  BOOST_TEST(emulation::host_counts().pageable_copies == before);
}

BOOST_AUTO_TEST_CASE(races_in_pinned_memory_of_blocks_are_seen) {
  const auto race = [](bool waits) {
    return test::fault_of([waits] {
      Blocks b;
      const Device::Block apart = b.device.allocate(block_bytes, Space::device);
      b.device.copy(b.gpu(), b.host(), Blocks::bytes, *b.stream);
      b.stream->synchronize();
      const auto event = b.device.make_event();
      b.device.copy(b.host(), b.gpu(), Blocks::bytes, *b.stream);  // back, while another stream reads it
      event->record(*b.stream);
      if (waits) b.other->wait(*event);
      b.device.copy(apart.get(), b.host() + 2 * block_bytes, block_bytes / 4, *b.other);
      b.stream->synchronize();
      b.other->synchronize();
    });
  };
  BOOST_TEST(race(false).find("a race between streams") != std::string::npos, race(false));
  BOOST_TEST(race(true).find("a race between streams") == std::string::npos, race(true));
}

BOOST_FIXTURE_TEST_CASE(pinned_memory_that_a_driver_refuses_is_given_back, Blocks) {
  setenv("SFT_EMULATED_PINNED_MIB", "6", 1);  // 3.5 of them are taken
  BOOST_CHECK_EXCEPTION((void)device.allocate(bytes, Space::pinned), Error, [](const Error& error) {
    return std::string(error.what()).starts_with("cannot allocate 3.5 MiB as pinned memory");
  });
  BOOST_CHECK_NO_THROW(
      (void)device.allocate(2 * block_bytes, Space::pinned));  // what was pinned before it is free again
  pinned.reset();
  BOOST_CHECK_NO_THROW((void)device.allocate(bytes, Space::pinned));
  unsetenv("SFT_EMULATED_PINNED_MIB");
}

BOOST_FIXTURE_TEST_CASE(bytes_go_there_and_back_behind_events_of_another_stream, Machine) {
  const auto other = device->make_stream(Priority::communication);
  const auto event = device->make_event();
  constexpr std::size_t bytes = 10000;
  const auto source = device->allocate(bytes, Space::pinned), result = device->allocate(bytes, Space::pinned);
  const auto memory = device->allocate(bytes);
  for (int round = 0; round < 20; ++round) {
    stream->synchronize();
    std::memset(source.get(), round + 1, bytes);
    std::memset(result.get(), 0xee, bytes);
    device->copy(memory.get(), source.get(), bytes, *stream);
    device->fill_zero(memory.get(), bytes / 2, *stream);
    event->record(*stream);
    other->wait(*event);
    device->copy(result.get(), memory.get(), bytes, *other);
    event->record(*other);
    stream->wait(*event);
    event->synchronize();
    const auto* values = static_cast<const unsigned char*>(result.get());
    BOOST_TEST(values[0] == 0);
    BOOST_TEST(values[bytes / 2 - 1] == 0);
    BOOST_TEST(values[bytes / 2] == round + 1);
    BOOST_TEST(values[bytes - 1] == round + 1);
  }
}

BOOST_FIXTURE_TEST_CASE(an_event_that_was_not_recorded_is_not_waited_for, Machine) {
  const auto event = device->make_event();
  event->synchronize();
  stream->wait(*event);
  stream->drain();
  BOOST_TEST(stream->native() != nullptr);
}

BOOST_FIXTURE_TEST_CASE(a_timeline_has_the_times_of_work_on_streams_and_of_queueing_it, Machine) {
  const auto other = device->make_stream(Priority::communication);
  const auto event = device->make_event();
  constexpr std::size_t bytes = 10000;
  const auto memory = device->allocate(bytes);
  stream->set_name("compute");
  other->set_name("communication");
  Timeline& timeline = device->timeline();
  const emulation::HostCounts before = emulation::host_counts();
  for (int round = 0; round < 20; ++round) {
    timeline.start(100);
    timed(timeline, *stream, {.category = "test", .what = "outer"}, [&] {
      timed(timeline, *stream, {.category = "test", .what = "inner"},
            [&] { device->fill_zero(memory.get(), bytes, *stream); });
    });
    event->record(*stream);
    other->wait(*event);
    timed(timeline, *other, {.category = "test", .what = "behind"},
          [&] { device->fill_zero(memory.get(), bytes, *other); });
    timed(timeline, {.category = "test", .what = "alone"}, [] {});
    const Timeline::Noted noted = timeline.stop();

    BOOST_TEST(noted.num_left_out == 0u);
    BOOST_TEST_REQUIRE(noted.ranges.size() == 7u);  // all but the last on two tracks
    const auto find = [&](const std::string& name, const std::string& track) {
      const auto found = std::ranges::find_if(
          noted.ranges, [&](const TimedRange& range) { return range.name == name && range.track == track; });
      BOOST_TEST_REQUIRE((found != noted.ranges.end()), name << " on " << track);
      BOOST_TEST(found->begin_ns <= found->end_ns);
      return *found;
    };
    const TimedRange outer = find("outer", "compute"), inner = find("inner", "compute");
    const TimedRange behind = find("behind", "communication");
    BOOST_TEST(outer.begin_ns <= inner.begin_ns);
    BOOST_TEST(inner.end_ns <= outer.end_ns);
    BOOST_TEST(outer.end_ns <= behind.end_ns);
    BOOST_TEST(find("outer", "host").begin_ns <= outer.begin_ns);
    BOOST_TEST(find("behind", "host").begin_ns <= behind.begin_ns);
    (void)find("inner", "host");
    (void)find("alone", "host");
  }
  const emulation::HostCounts after = emulation::host_counts();
  BOOST_TEST(after.profiler_starts - before.profiler_starts == 20);
  BOOST_TEST(after.profiler_stops - before.profiler_stops == 20);
}

BOOST_FIXTURE_TEST_CASE(a_timeline_that_is_off_queues_nothing, Machine) {
  const emulation::HostCounts before = emulation::host_counts();
  timed(device->timeline(), *stream, {.category = "test", .what = "work"}, [] {});
  BOOST_TEST(emulation::host_counts().profiler_starts == before.profiler_starts);
  device->timeline().start(100);
  BOOST_TEST(device->timeline().stop().ranges.empty());
}

}  // namespace sft::device
