// SPDX-License-Identifier: Apache-2.0
#include "sft/report/event_file.hpp"

#include <array>
#include <boost/crc.hpp>
#include <boost/test/unit_test.hpp>
#include <cstring>
#include <filesystem>
#include <protozero/pbf_message.hpp>
#include <vector>

#include "sft/io/files.hpp"
#include "support/temporary_folder.hpp"

namespace {

using namespace sft;

std::uint32_t crc32c(std::string_view bytes) {
  boost::crc_optimal<32, 0x1EDC6F41, 0xFFFFFFFF, 0xFFFFFFFF, true, true> crc;
  crc.process_bytes(bytes.data(), bytes.size());
  return crc.checksum();
}

/// What a frame has for a checksum, as in TFRecord's documentation.
std::uint32_t masked(std::uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xa282ead8U; }

template <class Number>
Number number_at(const std::string& bytes, std::size_t i) {
  Number number{};
  BOOST_TEST_REQUIRE(i + sizeof number <= bytes.size());
  std::memcpy(&number, bytes.data() + i, sizeof number);
  return number;
}

/// The events in the file, each as it was serialized; their frames are checked.
std::vector<std::string> events_of(const std::string& path) {
  const std::string bytes = io::read_file(path);
  std::vector<std::string> events;
  for (std::size_t i = 0; i < bytes.size();) {
    const auto length = number_at<std::uint64_t>(bytes, i);
    BOOST_TEST(number_at<std::uint32_t>(bytes, i + 8) == masked(crc32c(bytes.substr(i, 8))));
    events.push_back(bytes.substr(i + 12, length));
    BOOST_TEST(number_at<std::uint32_t>(bytes, i + 12 + length) == masked(crc32c(events.back())));
    i += 16 + length;
  }
  return events;
}

/// A point of a curve, or a text.
struct Point {
  std::string tag, text;
  double time_s = 0.0;
  std::int64_t step = 0;
  float value = 0.0F;
};

void read_value(protozero::pbf_reader value, Point& point) {
  while (value.next()) {
    if (value.tag() == 1) {
      point.tag = value.get_string();
    } else if (value.tag() == 2) {
      point.value = value.get_float();
    } else if (value.tag() == 8) {
      protozero::pbf_reader tensor = value.get_message();
      BOOST_TEST_REQUIRE(tensor.next(1));
      BOOST_TEST(tensor.get_enum() == 7);  // DT_STRING
      BOOST_TEST_REQUIRE(tensor.next(8));
      point.text = tensor.get_bytes();
    } else {
      value.skip();
    }
  }
}

std::vector<Point> points_of(const std::string& event) {
  std::vector<Point> points;
  Point moment;
  protozero::pbf_reader reader(event);
  while (reader.next()) {
    if (reader.tag() == 1) {
      moment.time_s = reader.get_double();
    } else if (reader.tag() == 2) {
      moment.step = reader.get_int64();
    } else if (reader.tag() == 5) {
      protozero::pbf_reader summary = reader.get_message();
      while (summary.next(1)) {
        points.push_back(moment);
        read_value(summary.get_message(), points.back());
      }
    } else {
      reader.skip();
    }
  }
  return points;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(event_file)

BOOST_AUTO_TEST_CASE(the_checksum_is_that_of_rfc_3720) { BOOST_TEST(crc32c("123456789") == 0xE3069283U); }

BOOST_AUTO_TEST_CASE(what_is_added_is_read_back) {
  const test::TemporaryFolder folder;
  report::EventFile file(folder.path() + "/run", 1000.5);
  file.add_text({0, 1000.5}, "configuration", "```\na = b\n```");
  file.add({10, 1001.0}, std::array<report::Scalar, 2>{{{"train/loss", 2.5}, {"train/epoch", 0.25}}});
  file.add({20, 1002.0}, std::array<report::Scalar, 1>{{{"train/loss", -1.5}}});
  const std::vector<std::string> events = events_of(file.path());
  BOOST_TEST_REQUIRE(events.size() == 5U);
  protozero::pbf_reader first(events[0]);
  BOOST_TEST_REQUIRE(first.next(3));
  BOOST_TEST(first.get_string() == "brain.Event:2");
  protozero::pbf_reader start(events[1]);
  BOOST_TEST_REQUIRE(start.next(7));
  protozero::pbf_reader log = start.get_message();
  BOOST_TEST_REQUIRE(log.next(1));
  BOOST_TEST(log.get_enum() == 1);  // START
  const std::vector<Point> text = points_of(events[2]), two = points_of(events[3]), one = points_of(events[4]);
  BOOST_TEST_REQUIRE(text.size() == 1U);
  BOOST_TEST(text[0].text == "```\na = b\n```");
  BOOST_TEST_REQUIRE(two.size() == 2U);
  BOOST_TEST(two[0].tag == "train/loss");
  BOOST_TEST(two[0].value == 2.5F);
  BOOST_TEST(two[1].tag == "train/epoch");
  BOOST_TEST(two[1].step == 10);
  BOOST_TEST(two[1].time_s == 1001.0);
  BOOST_TEST_REQUIRE(one.size() == 1U);
  BOOST_TEST(one[0].value == -1.5F);
}

BOOST_AUTO_TEST_CASE(earlier_files_keep_no_points_and_the_newest_stays_for_a_reader_that_has_it_open) {
  const test::TemporaryFolder folder;
  const report::Scalar loss{"train/loss", 2.5};
  const std::string first = report::EventFile(folder.path(), 1000.0).path();
  report::EventFile second(folder.path(), 2000.0);
  second.add({1, 2001.0}, std::span(&loss, 1));
  report::EventFile third(folder.path(), 2000.5);
  third.add({1, 2001.0}, std::span(&loss, 1));
  BOOST_TEST(events_of(second.path()).size() == 3U);  // until the points are in the third file
  third.replace_earlier();
  BOOST_TEST(!std::filesystem::exists(first));
  const std::vector<std::string> left = events_of(second.path());
  BOOST_TEST_REQUIRE(left.size() == 1U);
  BOOST_TEST(left[0].find("brain.Event:2") != std::string::npos);
  BOOST_TEST(events_of(third.path()).size() == 3U);
  BOOST_TEST(second.path() < third.path());  // read in this order, though made within a second
}

BOOST_AUTO_TEST_CASE(an_earlier_file_that_was_cut_is_left_as_it_is) {
  const test::TemporaryFolder folder;
  const std::string cut = report::EventFile(folder.path(), 1000.0).path();
  std::filesystem::resize_file(cut, 3);
  report::EventFile(folder.path(), 2000.0).replace_earlier();
  BOOST_TEST(std::filesystem::file_size(cut) == 3U);
}

BOOST_AUTO_TEST_SUITE_END()
