// SPDX-License-Identifier: Apache-2.0
// Whom a run that stands still waits for, by tables of what its ranks do.
#include "comm/hang.hpp"

#include <boost/test/unit_test.hpp>
#include <string>
#include <vector>

namespace sft::comm {

namespace {

using Condition = StandingRank::Condition;
using Indices = std::vector<std::size_t>;

const ActivityText sum_12{ActivityKind::waits, "sum over world", 12};
const ActivityText reading{ActivityKind::reads, "reading rows", 0};
const ActivityText saving{ActivityKind::saves, "saving", 0};

StandingRank rank_in(int rank, std::vector<ActivityText> activities, Condition condition = Condition::runs) {
  return {.rank = rank, .host = "node1", .condition = condition, .activities = std::move(activities), .stood_s = 5.2};
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

BOOST_AUTO_TEST_SUITE(hang)

BOOST_AUTO_TEST_CASE(a_rank_that_cannot_go_on_is_named_wherever_it_stands) {
  for (const Condition condition : {Condition::stopped, Condition::ended, Condition::silent, Condition::gone}) {
    BOOST_TEST(find_culprits({rank_in(0, {sum_12}), rank_in(1, {reading}), rank_in(2, {sum_12}, condition)}) ==
               Indices{2});
  }
}

BOOST_AUTO_TEST_CASE(else_those_that_wait_for_nobody) {
  BOOST_TEST(find_culprits({rank_in(0, {sum_12}), rank_in(1, {reading}, Condition::blocked), rank_in(2, {})}) ==
             (Indices{1, 2}));
  BOOST_TEST(find_culprits({rank_in(0, {saving, sum_12}), rank_in(1, {saving})}) == Indices{1});
}

BOOST_AUTO_TEST_CASE(else_those_that_wait_for_their_gpus_where_not_all_do) {
  const ActivityText gpu{ActivityKind::device, "waiting for its GPU", 0};
  BOOST_TEST(find_culprits({rank_in(0, {sum_12}), rank_in(1, {gpu})}) == Indices{1});
  BOOST_TEST(find_culprits({rank_in(0, {gpu}), rank_in(1, {gpu})}).empty());
  BOOST_TEST(find_culprits({rank_in(0, {gpu}), rank_in(1, {reading})}) == Indices{1});
}

BOOST_AUTO_TEST_CASE(else_those_that_are_behind_in_the_same_calls) {
  const ActivityText sum_11{ActivityKind::waits, "sum over world", 11}, other{ActivityKind::waits, "max over tp", 3};
  BOOST_TEST(find_culprits({rank_in(0, {sum_12}), rank_in(1, {sum_11}), rank_in(2, {other})}) == Indices{1});
  BOOST_TEST(find_culprits({rank_in(0, {sum_12}), rank_in(1, {sum_12})}).empty());
}

BOOST_AUTO_TEST_CASE(only_ranks_that_are_alive_and_save_may_be_slow) {
  const std::vector<StandingRank> ranks{rank_in(0, {saving, sum_12}), rank_in(1, {saving}, Condition::blocked),
                                        rank_in(2, {saving}, Condition::stopped), rank_in(3, {reading})};
  BOOST_TEST(may_be_slow(ranks, {1}));
  BOOST_TEST(!may_be_slow(ranks, {1, 2}));
  BOOST_TEST(!may_be_slow(ranks, {1, 3}));
  BOOST_TEST(!may_be_slow(ranks, {}));
}

BOOST_AUTO_TEST_CASE(the_line_names_rank_host_place_and_age_and_who_waits) {
  const Error error = hang_error(
      {rank_in(0, {{ActivityKind::works, "the step's counts", 0}, sum_12}), rank_in(3, {saving}, Condition::stopped)},
      {1}, "");
  BOOST_TEST((error.status() == ExitStatus::hang));
  const std::string text = error.what();
  BOOST_TEST(text.starts_with("rank 3 on node1 stands still, stopped by a signal, in saving, for 5 s (rank 0 is in the "
                              "step's counts, sum over world (call 12)): "),
             text);
  BOOST_TEST(has(text, "comm_timeout_s"));
}

BOOST_AUTO_TEST_CASE(of_a_node_that_is_gone_nobody_knows_where_its_ranks_are) {
  const std::string text = hang_error({rank_in(0, {sum_12}), rank_in(8, {}, Condition::gone)}, {1}, "").what();
  BOOST_TEST(
      text.starts_with("rank 8 on node1 stands still, with its whole node, which does not answer (it is down, cut "
                       "off from the others, or does not see output_dir), for 5 s (rank 0 is in sum over world "),
      text);
}

BOOST_AUTO_TEST_CASE(where_nobody_stands_out_all_are_told_of) {
  std::vector<StandingRank> ranks;
  for (int rank = 8; rank < 14; ++rank) ranks.push_back(rank_in(rank, {sum_12}));
  const std::string text = hang_error(ranks, {}, "group tp waits in call 3").what();
  BOOST_TEST(
      text.starts_with("the ranks on node1 stand still, and none of them stands out (rank 8 is in sum over world "
                       "(call 12); rank 9 is in "),
      text);
  BOOST_TEST(has(text, "; and 2 more; group tp waits in call 3): look for a line of another node"), text);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft::comm
