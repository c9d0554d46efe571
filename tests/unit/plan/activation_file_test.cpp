// SPDX-License-Identifier: Apache-2.0
// Activations in a file: what is read back is what was written, and a disk that refuses is an error by name.

#include "plan/activation_file.hpp"

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "sft/core/error.hpp"
#include "sft/device/factory.hpp"
#include "support/file_size_limit.hpp"
#include "support/temporary_folder.hpp"

namespace sft::plan {

namespace {

using model::BlockIndex;

constexpr int num_blocks = 5;
constexpr std::size_t num_floats = 3000;

/// One slot that all blocks work in: two tensors.
struct Slot {
  std::vector<float> a = std::vector<float>(num_floats), b = std::vector<float>(7);

  void fill(int block) {
    for (std::size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(static_cast<std::size_t>(block) * 10000 + i);
    for (std::size_t i = 0; i < b.size(); ++i) b[i] = -static_cast<float>(static_cast<std::size_t>(block) * 10 + i);
  }
  [[nodiscard]] std::vector<Tensor> tensors(std::int64_t count) {
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
  std::size_t place_bytes = (num_floats + 7) * sizeof(float);
};

}  // namespace

BOOST_AUTO_TEST_SUITE(activation_file)

BOOST_FIXTURE_TEST_CASE(every_block_comes_back_in_any_pass, Fixture) {
  ActivationFile file(folder.path() + "/made", num_blocks, place_bytes, *device);
  BOOST_TEST(std::filesystem::is_empty(folder.path() + "/made"));  // it has no name
  for (const std::int64_t count : {std::int64_t{num_floats}, std::int64_t{1}, std::int64_t{1234}}) {
    std::vector<Slot> slots(2);
    for (const BlockIndex block : IndexRange<BlockIndex>(num_blocks)) {
      if (block >= 2) file.wait(BlockIndex::from(block - 2));
      slots[block % 2].fill(block);
      file.save(block, slots[block % 2].tensors(count));
    }
    file.wait(num_blocks - 2);
    file.wait(num_blocks - 1);
    for (const BlockIndex block : IndexRange<BlockIndex>::reversed(num_blocks)) {
      Slot& slot = slots[block % 2];
      slot.fill(99);
      file.load(block, slot.tensors(count));
      file.wait(block);
      Slot expected;
      expected.fill(block);
      const auto n = static_cast<std::size_t>(count);
      BOOST_TEST(std::equal(slot.a.begin(), slot.a.begin() + count, expected.a.begin()));
      BOOST_TEST(
          (n == num_floats || slot.a[n] == 990000.0F + static_cast<float>(n)));  // what lies behind it is left alone
      BOOST_TEST((slot.b == expected.b));
    }
  }
}

BOOST_FIXTURE_TEST_CASE(more_than_a_place_holds_is_a_bug, Fixture) {
  ActivationFile file(folder.path(), num_blocks, place_bytes - 1, *device);
  Slot slot;
  BOOST_CHECK_THROW(file.save(0, slot.tensors(num_floats)), std::logic_error);
}

BOOST_FIXTURE_TEST_CASE(a_disk_without_room_is_refused_with_the_bytes, Fixture) {
  const test::FileSizeLimit full(1 << 20);
  const std::string text = error_of([&] { ActivationFile(folder.path(), 4, std::size_t{1} << 20U, *device); });
  BOOST_TEST(text.find("cannot offload activations to `" + folder.path() + "` (a rank needs 4.0 MiB there: ") == 0U,
             text);
}

BOOST_FIXTURE_TEST_CASE(a_folder_that_cannot_be_made_is_named, Fixture) {
  const std::string text = error_of([&] { ActivationFile("/proc/none", 1, 16, *device); });
  BOOST_TEST(text.find("/proc/none") != std::string::npos, text);
}

BOOST_FIXTURE_TEST_CASE(a_disk_that_fails_on_the_way_ends_the_wait, Fixture) {
  ActivationFile file(folder.path(), num_blocks, place_bytes, *device);
  Slot slot;
  const test::FileSizeLimit full(0);
  file.save(1, slot.tensors(num_floats));
  const std::string text = error_of([&] { file.wait(1); });
  BOOST_TEST(text.find("cannot write offloaded activations in `" + folder.path() + "`") == 0U, text);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft::plan
