// SPDX-License-Identifier: Apache-2.0
// The device room on GPUs: two of them with 64 MiB each.
#define BOOST_TEST_MODULE emulated_device
#include <boost/test/unit_test.hpp>
#include <cstring>
#include <string>

#include "sft/core/error.hpp"
#include "sft/device/arena.hpp"
#include "sft/device/factory.hpp"
#include "sft/device/gpus.hpp"

namespace sft::device {

namespace {

constexpr std::size_t mebibyte = std::size_t{1} << 20U;

struct Machine {
  std::unique_ptr<Device> device = make_device(Kind::cuda, 1, 2);
  std::unique_ptr<Stream> stream = device->make_stream();
};

}  // namespace

BOOST_AUTO_TEST_CASE(the_gpus_are_seen_with_what_tells_them_apart) {
  const VisibleGpus visible = visible_gpus();
  BOOST_TEST_REQUIRE(visible.gpus.size() == 2u);
  BOOST_TEST(visible.problem == "");
  BOOST_TEST(visible.gpus[0].uuid != visible.gpus[1].uuid);
  for (const Gpu& gpu : visible.gpus) {
    BOOST_TEST(gpu.uuid.size() == std::string("GPU-").size() + 32);
    BOOST_TEST(gpu.compute_capability >= least_compute_capability);
    BOOST_TEST(gpu.memory_bytes == 64 * mebibyte);
  }
}

BOOST_FIXTURE_TEST_CASE(the_gpu_that_was_taken_is_one_of_them, Machine) {
  const OwnGpu own = own_gpu();
  BOOST_TEST(own.index == 1);
  BOOST_TEST(own.uuid == visible_gpus().gpus[1].uuid);
  BOOST_TEST(own.clock_hz > 1e9);
  BOOST_TEST(own.memory_bytes_per_second > 1e12);  // of an A100: 1.555e12
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
  const auto device = make_device(Kind::cuda, 0, 4, 4);
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

}  // namespace sft::device
