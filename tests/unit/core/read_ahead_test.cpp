// SPDX-License-Identifier: Apache-2.0
#include "sft/core/read_ahead.hpp"

#include <atomic>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstddef>
#include <thread>

using sft::ReadAhead;

BOOST_AUTO_TEST_SUITE(read_ahead)

BOOST_AUTO_TEST_CASE(as_much_is_read_ahead_as_its_bytes_allow) {
  std::atomic<int> num_made = 0;
  ReadAhead<int> queue(
      40, 10, [](int) { return std::size_t{10}; },
      [&](const auto& push) {
        while (push([&] { return ++num_made; })) {
        }
      });
  const auto settles_at = [&](int expected) {
    for (int i = 0; i < 1000 && num_made < expected; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return num_made == expected;
  };
  BOOST_TEST(settles_at(4));
  BOOST_TEST(queue.next() == 1);
  BOOST_TEST(settles_at(5));
  for (int i = 2; i < 8; ++i) BOOST_TEST(queue.next() == i);
}

BOOST_AUTO_TEST_SUITE_END()
