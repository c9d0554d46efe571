// SPDX-License-Identifier: Apache-2.0
// What a process says of itself: nested, cut where it is long, and of the thread of `main` alone.
#include "sft/core/activity.hpp"

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace sft {

BOOST_AUTO_TEST_SUITE(activity)

BOOST_AUTO_TEST_CASE(activities_nest_and_say_what_they_are_about) {
  BOOST_TEST(own_activities().read().empty());
  {
    const Activity saving(ActivityKind::saves, "saving");
    const Activity waiting(ActivityKind::waits, "all_gather", "block 3", "fsdp", 412);
    const std::vector<ActivityText> all = own_activities().read();
    BOOST_TEST_REQUIRE(all.size() == 2U);
    BOOST_TEST(all[0].text == "saving");
    BOOST_TEST((all[0].kind == ActivityKind::saves));
    BOOST_TEST(all[1].text == "all_gather of block 3 over fsdp");
    BOOST_TEST((all[1].kind == ActivityKind::waits));
    BOOST_TEST(all[1].number == 412U);
  }
  BOOST_TEST(own_activities().read().empty());
}

BOOST_AUTO_TEST_CASE(long_texts_are_cut_and_deep_ones_left_out) {
  const std::string longest(ActivityRecord::max_text_bytes, 'x');
  std::vector<std::unique_ptr<Activity>> nested;
  for (int i = 0; i < 6; ++i)
    nested.push_back(std::make_unique<Activity>(ActivityKind::works, longest + "y", "of", "o"));
  const std::vector<ActivityText> all = own_activities().read();
  BOOST_TEST(all.size() == ActivityRecord::max_depth);
  BOOST_TEST(all.front().text == longest);
  while (!nested.empty()) nested.pop_back();
  BOOST_TEST(own_activities().read().empty());
}

BOOST_AUTO_TEST_CASE(another_record_takes_over_what_there_is) {
  ActivityRecord record{};
  {
    const Activity outer(ActivityKind::works, "outer");
    note_activities_in(&record);
    const Activity inner(ActivityKind::reads, "inner");
    BOOST_TEST(record.read().size() == 2U);
    note_activities_in(nullptr);
    BOOST_TEST(own_activities().read().back().text == "inner");
  }
  BOOST_TEST(own_activities().read().empty());
}

BOOST_AUTO_TEST_CASE(other_threads_have_progress_but_no_activities) {
  const std::uint64_t before = progress();
  std::thread([] {
    const Activity ignored(ActivityKind::reads, "reading");
    BOOST_TEST(own_activities().read().empty());
    note_progress();
  }).join();
  BOOST_TEST(progress() == before + 1);
}

BOOST_AUTO_TEST_CASE(the_time_waited_is_that_of_the_outermost_waits) {
  const auto before = time_waited();
  const auto pause = std::chrono::milliseconds(20);
  {
    const Activity working(ActivityKind::works, "computing");
    std::this_thread::sleep_for(pause);
  }
  BOOST_TEST((time_waited() == before));
  const auto start = std::chrono::steady_clock::now();
  {
    const Activity agreeing(ActivityKind::waits, "agree");
    const Activity adding(ActivityKind::waits, "sum", {}, "world", 1);
    std::this_thread::sleep_for(pause);
  }
  BOOST_TEST((time_waited() - before >= pause));
  BOOST_TEST((time_waited() - before <= std::chrono::steady_clock::now() - start));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft
