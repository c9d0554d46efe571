// SPDX-License-Identifier: Apache-2.0
#include <boost/test/unit_test.hpp>

#include "sft/core/format.hpp"

using namespace sft;

BOOST_AUTO_TEST_SUITE(format)

BOOST_AUTO_TEST_CASE(bytes) {
  BOOST_TEST(format_bytes(17) == "17 B");
  BOOST_TEST(format_bytes(310 * 1024 * 1024) == "310.0 MiB");
  BOOST_TEST(format_bytes(std::size_t{1280} << 20) == "1.25 GiB");
}

BOOST_AUTO_TEST_CASE(counts) {
  BOOST_TEST(format_count(812) == "812");
  BOOST_TEST(format_count(40100) == "40.1 k");
  BOOST_TEST(format_count(999999) == "1 M");
  BOOST_TEST(format_count(1.25e6) == "1.25 M");
  BOOST_TEST(format_count(7e12) == "7 T");
}

BOOST_AUTO_TEST_CASE(durations) {
  BOOST_TEST(format_duration(-1) == "0:00");
  BOOST_TEST(format_duration(245) == "4:05");
  BOOST_TEST(format_duration(3723.4) == "1:02:03");
  BOOST_TEST(format_seconds(0.4249) == "0.42 s");
}

BOOST_AUTO_TEST_SUITE_END()
