// SPDX-License-Identifier: Apache-2.0
// What the driver's library tells of a GPU's clock.
#include <array>
#include <boost/test/unit_test.hpp>

#include "sft/machine/gpus.hpp"

namespace sft::machine {

BOOST_AUTO_TEST_SUITE(nvml)

BOOST_AUTO_TEST_CASE(a_uuid_is_written_as_nvidia_smi_writes_it) {
  const std::array<unsigned char, 16> bytes{1, 2, 0xa0, 0xff, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  BOOST_TEST(uuid_text(bytes) == "GPU-0102a0ff-0405-0607-0809-0a0b0c0d0e0f");
}

BOOST_AUTO_TEST_CASE(the_clock_is_asked_for_by_uuid) {
  const std::optional<GpuClock> clock = gpu_clock("GPU-0102a0ff-0405-0607-0809-0a0b0c0d0e0f", NVML_STAND_IN);
  BOOST_REQUIRE(clock.has_value());
  BOOST_TEST(clock->now_hz == 1395e6);
  BOOST_TEST(clock->most_hz == 1980e6);
  BOOST_TEST(clock->held_by == "its power limit, its temperature");
}

BOOST_AUTO_TEST_CASE(a_gpu_that_is_not_known_or_a_missing_library_has_no_clock) {
  BOOST_TEST(!gpu_clock("GPU-ffffffff-0405-0607-0809-0a0b0c0d0e0f", NVML_STAND_IN).has_value());
  BOOST_TEST(!gpu_clock("GPU-0102a0ff-0405-0607-0809-0a0b0c0d0e0f", "there/is/none.so").has_value());
  // A library without these functions.
  BOOST_TEST(!gpu_clock("GPU-0102a0ff-0405-0607-0809-0a0b0c0d0e0f", "libm.so.6").has_value());
}

}  // namespace sft::machine

BOOST_AUTO_TEST_SUITE_END()
