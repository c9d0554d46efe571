// SPDX-License-Identifier: Apache-2.0
// What nodes tell each other through files, and when they do not.
#include "comm/node_reports.hpp"

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>

#include "support/temporary_folder.hpp"

namespace sft::comm {

namespace {

NodeReport report_of(std::int64_t first_rank, double hang_s, bool calls) {
  return {.first_rank = first_rank,
          .calls = calls,
          .hang_s = hang_s,
          .ranks = {{.rank = static_cast<int>(first_rank),
                     .host = "node1",
                     .condition = StandingRank::Condition::stopped,
                     .activities = {{ActivityKind::saves, "saving", 0}, {ActivityKind::waits, "sum over world", 12}},
                     .stood_s = 2.5},
                    {.rank = static_cast<int>(first_rank) + 1, .host = "node1", .activities = {}}}};
}

/// Whether it comes true within a minute.
bool soon(const std::function<bool()>& is_true) {
  for (int i = 0; i < 6000 && !is_true(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return is_true();
}

}  // namespace

BOOST_AUTO_TEST_SUITE(node_reports)

BOOST_AUTO_TEST_CASE(a_report_comes_back_from_its_text) {
  const NodeReport report = report_of(8, 3.25, false);
  const auto read = parse_node_report(to_text(report));
  BOOST_TEST_REQUIRE(read.has_value());
  BOOST_TEST(read->first_rank == 8);
  BOOST_TEST(read->hang_s == 3.25);
  BOOST_TEST_REQUIRE(read->ranks.size() == 2U);
  BOOST_TEST(read->ranks[0].place() == "saving, sum over world (call 12)");
  BOOST_TEST((read->ranks[0].condition == StandingRank::Condition::stopped));
  BOOST_TEST(read->ranks[0].host == "node1");
  BOOST_TEST(read->ranks[1].activities.empty());
  BOOST_TEST(to_text(*read) == to_text(report));
}

BOOST_AUTO_TEST_CASE(so_does_one_of_an_activity_without_a_name) {
  NodeReport report = report_of(8, 3.25, false);
  report.ranks[0].activities.back().text.clear();
  const auto read = parse_node_report(to_text(report));
  BOOST_TEST_REQUIRE(read.has_value());
  BOOST_TEST(to_text(*read) == to_text(report));
}

BOOST_AUTO_TEST_CASE(other_texts_are_no_reports) {
  const std::string whole = to_text(report_of(8, 3.25, false));
  for (const std::string& text : {std::string(), std::string("8"), std::string("a\tb\tc\n"),
                                  whole.substr(0, whole.find("saving") - 2), whole + "x\n"}) {
    BOOST_TEST(!parse_node_report(text).has_value(), text);
  }
}

BOOST_AUTO_TEST_CASE(nothing_is_written_until_a_node_calls_and_then_all_answer) {
  const test::TemporaryFolder folder;
  const std::filesystem::path files = folder.file("hang");
  {
    NodeReports first(files, 0, 0.01), second(files, 2, 0.01);
    first.tell(report_of(0, 0.5, false));
    second.tell(report_of(2, 0.0, false));
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    BOOST_TEST(!std::filesystem::exists(files));
    BOOST_TEST(first.others().empty());

    first.tell(report_of(0, 1.5, true));
    BOOST_TEST(soon([&] { return first.others().size() == 1 && second.others().size() == 1; }));
    BOOST_TEST(first.others().front().first_rank == 2);
    BOOST_TEST(soon([&] {
      const auto others = second.others();
      return others.size() == 1 && others.front().hang_s == 1.5;
    }));

    first.tell(report_of(0, 0.0, false));
    BOOST_TEST(soon([&] { return !std::filesystem::exists(files); }));
  }
  BOOST_TEST(!std::filesystem::exists(files));
}

// Each rank of a node has its reports, and one of them speaks.
BOOST_AUTO_TEST_CASE(a_rank_that_does_not_speak_leaves_the_file_of_its_node_alone) {
  const test::TemporaryFolder folder;
  const std::filesystem::path files = folder.file("hang");
  NodeReports other(files, 0, 0.01), speaker(files, 2, 0.01), silent(files, 2, 0.002);
  other.tell(report_of(0, 2.0, true));
  speaker.tell(report_of(2, 0.0, false));
  BOOST_TEST_REQUIRE(soon([&] { return !other.others().empty(); }));
  const auto all_are_of_the_speaker = [&] {
    for (int i = 0; i < 50; ++i) {
      for (const NodeReport& report : other.others()) {
        if (report.first_rank != 2 || report.ranks.size() != 2U) return false;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return true;
  };
  BOOST_TEST(all_are_of_the_speaker());
  speaker.leave_to_another();
  silent.tell(report_of(2, 1.0, false));
  BOOST_TEST(soon([&] { return !other.others().empty() && other.others().front().hang_s == 1.0; }));
  BOOST_TEST(all_are_of_the_speaker());
}

BOOST_AUTO_TEST_CASE(a_file_that_nobody_writes_any_more_is_forgotten) {
  const test::TemporaryFolder folder;
  std::ofstream(folder.file("node-of-rank-4.txt")) << to_text(report_of(4, 1.0, true));
  NodeReports node(folder.path(), 0, 0.01);
  node.tell(report_of(0, 1.0, false));
  BOOST_TEST(soon([&] { return !node.others().empty(); }));
  BOOST_TEST(soon([&] { return node.others().empty(); }));
}

BOOST_AUTO_TEST_CASE(a_folder_that_another_node_has_just_made_stays) {
  const test::TemporaryFolder folder;
  const std::string files = folder.file("hang");
  const NodeReports node(files, 0, 0.001);
  std::filesystem::create_directory(files);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  BOOST_TEST(std::filesystem::exists(files));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft::comm
