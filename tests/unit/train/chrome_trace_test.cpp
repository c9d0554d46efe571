// SPDX-License-Identifier: Apache-2.0
#include <boost/test/unit_test.hpp>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "train/chrome_trace.hpp"

using namespace sft;

namespace {

constexpr std::int64_t origin_ns = 5'000'000'000'000;

device::TimedRange range(const std::string& name, const std::string& track, std::int64_t begin_ns,
                         std::int64_t end_ns) {
  return {name, "test", track, 0, origin_ns + begin_ns, origin_ns + end_ns};
}

}  // namespace

BOOST_AUTO_TEST_SUITE(chrome_trace)

BOOST_AUTO_TEST_CASE(a_trace_of_two_ranks_is_json_with_what_was_noted) {
  std::vector<device::TimedRange> ranges = {range("step 1", "host", 0, 3'000'000),
                                            range("a \"quoted\" \\ name", "compute", 1'234, 5'678)};
  ranges.back().bytes = 99;
  const std::string text =
      train::chrome_trace_begin("two \"ranks\"") + train::chrome_trace_events(0, "rank 0", ranges, origin_ns) + ",\n" +
      train::chrome_trace_events(1, "rank 1", {range("x", "a stream", 7, 7)}, origin_ns) + train::chrome_trace_end();
  const auto json = nlohmann::json::parse(text);
  BOOST_TEST(json.at("otherData").at("description") == "two \"ranks\"");

  std::map<int, std::string> processes;
  std::map<std::pair<int, int>, std::string> threads;
  std::vector<nlohmann::json> shown;
  for (const auto& event : json.at("traceEvents")) {
    const std::string name = event.at("name"), kind = event.at("ph");
    const int process = event.at("pid");
    if (kind == "X") shown.push_back(event);
    if (name == "process_name") processes[process] = event.at("args").at("name");
    if (name == "thread_name") threads[{process, event.at("tid")}] = event.at("args").at("name");
  }
  BOOST_TEST((processes == std::map<int, std::string>{{0, "rank 0"}, {1, "rank 1"}}));
  BOOST_TEST_REQUIRE(shown.size() == 3u);
  const auto thread_of = [&](const nlohmann::json& event) { return threads.at({event.at("pid"), event.at("tid")}); };
  BOOST_TEST(thread_of(shown[0]) == "host");
  BOOST_TEST(thread_of(shown[1]) == "compute");
  BOOST_TEST(thread_of(shown[2]) == "a stream");
  BOOST_TEST(shown[0].at("dur") == 3000.0);
  BOOST_TEST(shown[1].at("name") == "a \"quoted\" \\ name");
  BOOST_TEST(shown[1].at("cat") == "test");
  BOOST_TEST(shown[1].at("ts") == 1.234);
  BOOST_TEST(shown[1].at("dur") == 4.444);
  BOOST_TEST(shown[1].at("args").at("bytes") == 99);
  BOOST_TEST(shown[2].at("dur") == 0.0);
}

BOOST_AUTO_TEST_CASE(a_rank_that_noted_nothing_has_its_row) {
  const auto json =
      nlohmann::json::parse(train::chrome_trace_begin("") + train::chrome_trace_events(4, "rank 4", {}, origin_ns) +
                            train::chrome_trace_end());
  std::set<std::string> threads;
  for (const auto& event : json.at("traceEvents")) {
    BOOST_TEST(event.at("pid") == 4);
    if (event.at("name") == "thread_name") threads.insert(event.at("args").at("name"));
  }
  BOOST_TEST((threads == std::set<std::string>{"host", "compute", "communication", "gathers", "ring", "tp"}));
}

BOOST_AUTO_TEST_SUITE_END()
