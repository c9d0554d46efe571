// SPDX-License-Identifier: Apache-2.0
// What was moved away comes back, whoever moves it; a disk that refuses is an error by name.

#include "sft/transfer/mover.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "sft/core/error.hpp"
#include "sft/device/factory.hpp"
#include "sft/transfer/file_mover.hpp"
#include "sft/transfer/host_mover.hpp"
#include "sft/transfer/staged_file_mover.hpp"
#include "support/file_size_limit.hpp"
#include "support/temporary_folder.hpp"

namespace sft::transfer {

namespace {

constexpr std::size_t num_places = 5, num_floats = 3000;

/// Memory in which two places are worked on in turn: two tensors.
struct Slot {
  std::vector<float> a = std::vector<float>(num_floats), b = std::vector<float>(7);

  void fill(std::size_t place) {
    for (std::size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(place * 10000 + i);
    for (std::size_t i = 0; i < b.size(); ++i) b[i] = -static_cast<float>(place * 10 + i);
  }
  /// The first `count` numbers of a, and b.
  [[nodiscard]] std::vector<Tensor> tensors(std::int64_t count = num_floats) {
    return {{a.data(), DType::float32, {count}}, {b.data(), DType::float32, {7}}};
  }
};

std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

struct Fixture {
  test::TemporaryFolder folder;
  std::unique_ptr<device::Device> device = device::make_device(device::Kind::cpu);
  std::unique_ptr<device::Stream> compute = device->make_stream();
  std::size_t place_bytes = (num_floats + 7) * sizeof(float);

  [[nodiscard]] std::unique_ptr<FileMover> make_file_mover(const std::string& where, std::size_t count,
                                                           std::size_t bytes) const {
    const FileMover::File file{.folder = where,
                               .use = {.what = "activations", .instead = "activation_offload = false"},
                               .cache = io::FileCache::used};
    return std::make_unique<FileMover>(file, std::vector<std::size_t>(count, bytes), count, *device, *compute);
  }
};

/// A file behind pinned memory, which is that of the process on a CPU.
struct StagedFixture : Fixture {
  std::vector<char> memory = std::vector<char>(StagedFileMover::staging_bytes(place_bytes));
  Tensor staging{memory.data(), DType::uint8, {static_cast<std::int64_t>(memory.size())}};

  [[nodiscard]] std::unique_ptr<StagedFileMover> make_staged_mover(std::size_t count) const {
    const FileMover::File file{.folder = folder.path(),
                               .use = {.what = "activations", .instead = "activation_offload_to = auto"}};
    return std::make_unique<StagedFileMover>(file, place_bytes, count, staging, *device, *compute, "activations");
  }
};

/// Writes every place, reads them in the opposite order, in passes of several lengths.
void move_there_and_back(Mover& mover, device::Stream& compute) {
  for (const std::int64_t count : {std::int64_t{num_floats}, std::int64_t{1}, std::int64_t{1234}}) {
    std::vector<Slot> slots(2);
    for (std::size_t place = 0; place < num_places; ++place) {
      if (place >= 2) mover.finish(place - 2, compute);
      slots[place % 2].fill(place);
      mover.write(place, moves_of(place, slots[place % 2].tensors(count)));
    }
    mover.finish(num_places - 2, compute);
    mover.finish(num_places - 1, compute);
    for (std::size_t place = num_places; place-- > 0;) {
      Slot& slot = slots[place % 2];
      slot.fill(99);
      mover.reads_follow_ops();
      mover.read(place, moves_of(place, slot.tensors(count)));
      mover.finish(place, compute);
      compute.synchronize();
      Slot expected;
      expected.fill(place);
      const auto n = static_cast<std::size_t>(count);
      BOOST_TEST(std::equal(slot.a.begin(), slot.a.begin() + count, expected.a.begin()));
      BOOST_TEST((n == num_floats || slot.a[n] == 990000.0F + static_cast<float>(n)));  // left alone
      BOOST_TEST((slot.b == expected.b));
    }
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(mover)

BOOST_FIXTURE_TEST_CASE(every_place_of_a_file_comes_back_in_any_pass, Fixture) {
  const std::string made = folder.path() + "/made";
  const auto mover = make_file_mover(made, num_places, place_bytes);
  BOOST_TEST(std::filesystem::is_empty(made));  // it has no name
  move_there_and_back(*mover, *compute);
}

BOOST_FIXTURE_TEST_CASE(every_place_in_memory_comes_back_in_any_pass, Fixture) {
  std::vector<std::vector<float>> memory(num_places, std::vector<float>(num_floats + 7));
  std::vector<Tensor> places;
  for (std::vector<float>& place : memory) {
    places.push_back({place.data(), DType::float32, {static_cast<std::int64_t>(place.size())}});
  }
  HostMover mover(places, num_places, *device, *compute, "numbers", device::Priority::compute);
  move_there_and_back(mover, *compute);
}

BOOST_FIXTURE_TEST_CASE(every_place_of_a_file_behind_memory_comes_back_in_any_pass, StagedFixture) {
  const auto mover = make_staged_mover(num_places);
  move_there_and_back(*mover, *compute);
  BOOST_TEST(StagedFileMover::file_bytes(place_bytes, num_places) == num_places * room_bytes(place_bytes));
}

// As a decoder has it: two slots, a block is read while the one before it is worked on.
BOOST_FIXTURE_TEST_CASE(files_behind_memory_are_read_ahead, StagedFixture) {
  const auto mover = make_staged_mover(num_places);
  std::vector<Slot> slots(2);
  for (std::size_t place = 0; place < num_places; ++place) {
    if (place >= 2) mover->finish(place - 2, *compute);
    slots[place % 2].fill(place);
    mover->write(place, moves_of(place, slots[place % 2].tensors()));
  }
  const auto read_ahead = [&](std::size_t place) {
    mover->reads_follow_ops();
    mover->read(place, moves_of(place, slots[place % 2].tensors()));
  };
  for (const std::size_t place : {num_places - 1, num_places - 2}) {
    mover->finish(place, *compute);  // which left it
    slots[place % 2].fill(99);
    read_ahead(place);
  }
  for (std::size_t place = num_places; place-- > 0;) {
    mover->finish(place, *compute);
    compute->synchronize();
    Slot expected;
    expected.fill(place);
    BOOST_TEST((slots[place % 2].a == expected.a && slots[place % 2].b == expected.b), "place " << place);
    if (place >= 2) read_ahead(place - 2);
  }
}

BOOST_FIXTURE_TEST_CASE(a_disk_that_fails_behind_memory_is_an_error_later, StagedFixture) {
  std::vector<Slot> slots(num_places);
  const auto mover = make_staged_mover(num_places);
  const test::FileSizeLimit full(0);
  const std::string text = error_of([&] {
    for (std::size_t place = 0; place < num_places; ++place) {
      mover->write(place, moves_of(place, slots[place].tensors()));
    }
  });
  BOOST_TEST(text.find("cannot write offloaded activations in `" + folder.path() + "`") == 0U, text);
  BOOST_TEST(text.find("check the disk, or set activation_offload_to = auto") != std::string::npos, text);
}

BOOST_FIXTURE_TEST_CASE(more_than_a_place_behind_memory_holds_is_a_bug, StagedFixture) {
  place_bytes -= 1;
  Slot slot;
  const auto mover = make_staged_mover(1);
  BOOST_CHECK_THROW(mover->write(0, moves_of(0, slot.tensors())), std::logic_error);
}

BOOST_FIXTURE_TEST_CASE(places_without_the_cache_begin_at_blocks_of_the_disk, Fixture) {
  constexpr std::size_t block = io::direct_alignment_bytes;
  const std::vector<std::size_t> bytes{5, block, block + 1, 0, 12};
  BOOST_TEST(file_bytes(bytes) == 5 * block);
  BOOST_TEST(file_bytes(bytes, io::FileCache::used) == 2 * block + 18);
  FileMover mover({.folder = folder.path(), .use = {.what = "numbers", .instead = "none"}}, bytes, 1, *device,
                  *compute);
  const std::unique_ptr<void, void (*)(void*)> memory(std::aligned_alloc(block, 2 * block), std::free);
  auto* values = static_cast<unsigned char*>(memory.get());
  for (const std::size_t place : {2, 0, 4, 1}) {
    std::fill_n(values, bytes[place], static_cast<unsigned char>(place + 1));
    const Move move{.place = place, .memory = {values, DType::uint8, {static_cast<std::int64_t>(bytes[place])}}};
    mover.write(0, {move});
    mover.finish(0, *compute);
  }
  for (const std::size_t place : {0, 1, 2, 4}) {
    const Move move{.place = place, .memory = {values, DType::uint8, {static_cast<std::int64_t>(bytes[place])}}};
    mover.read(0, {move});
    mover.finish(0, *compute);
    BOOST_TEST(std::count(values, values + bytes[place], place + 1) == static_cast<std::ptrdiff_t>(bytes[place]));
  }
}

BOOST_FIXTURE_TEST_CASE(more_than_a_place_holds_is_a_bug, Fixture) {
  Slot slot;
  const auto mover = make_file_mover(folder.path(), num_places, place_bytes - 1);
  BOOST_CHECK_THROW(mover->write(0, moves_of(0, slot.tensors())), std::logic_error);
}

BOOST_FIXTURE_TEST_CASE(a_disk_without_room_is_refused_with_the_bytes, Fixture) {
  const test::FileSizeLimit full(1 << 20);
  const std::string text = error_of([&] { static_cast<void>(make_file_mover(folder.path(), 4, 1U << 20U)); });
  BOOST_TEST(text.find("cannot offload activations to `" + folder.path() + "` (a rank needs 4.0 MiB there: ") == 0U,
             text);
}

BOOST_FIXTURE_TEST_CASE(a_folder_that_cannot_be_made_is_named, Fixture) {
  const std::string text = error_of([&] { static_cast<void>(make_file_mover("/proc/none", 1, 16)); });
  BOOST_TEST(text.find("/proc/none") != std::string::npos, text);
}

BOOST_FIXTURE_TEST_CASE(a_disk_that_fails_on_the_way_ends_the_wait, Fixture) {
  Slot slot;
  const auto mover = make_file_mover(folder.path(), num_places, place_bytes);
  const test::FileSizeLimit full(0);
  mover->write(1, moves_of(1, slot.tensors()));
  const std::string text = error_of([&] { mover->finish(1, *compute); });
  BOOST_TEST(text.find("cannot write offloaded activations in `" + folder.path() + "`") == 0U, text);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft::transfer
