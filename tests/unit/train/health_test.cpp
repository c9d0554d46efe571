// SPDX-License-Identifier: Apache-2.0
// What the console says of memory, slow ranks and the job, and which rank it names.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <string>
#include <vector>

#include "sft/train/health.hpp"
#include "sft/train/memory_peaks.hpp"

using namespace sft::train;

namespace {

constexpr std::int64_t mib = 1 << 20, gib = 1 << 30;
using Lines = std::vector<std::string>;

StepMetrics metrics_of(const MemoryPeaks& memory) {
  StepMetrics metrics;
  metrics.peak_memory = memory;
  return metrics;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(health)

BOOST_AUTO_TEST_CASE(of_nodes_the_fullest_counts_and_on_it_the_rank_with_most) {
  // Ranks 0 and 1 on a large node, 2 and 3 on a small one: rank 0 has most, but not where it is short.
  const MemoryPeaks peaks = peaks_of(std::vector<RankMemory>{{900 * mib, 1000 * mib, 10 * gib},
                                                             {100 * mib, 1000 * mib, 10 * gib},
                                                             {200 * mib, 500 * mib, gib},
                                                             {300 * mib, 500 * mib, gib}},
                                     /*are_nodes=*/true);
  BOOST_TEST(peaks.min_bytes == 100 * mib);
  BOOST_TEST(peaks.mean_bytes == 375 * mib);
  BOOST_TEST(peaks.max_bytes == 900 * mib);
  BOOST_TEST(peaks.max_rank == 0);
  BOOST_REQUIRE(peaks.fullest.has_value());
  BOOST_TEST(peaks.fullest->rank == 3);
  BOOST_TEST(
      describe_health(metrics_of(peaks), {}) == Lines{"memory: rank 3 fullest, 300.0 MiB; its node 49 % of 1.00 GiB"},
      boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(without_limits_the_rank_with_most_is_named) {
  const MemoryPeaks peaks = peaks_of(std::vector<RankMemory>{{mib, mib, 0}, {2 * mib, 2 * mib, 0}}, true);
  BOOST_TEST(!peaks.fullest.has_value());
  BOOST_TEST(describe_health(metrics_of(peaks), {}) == Lines{"memory: rank 1 fullest, 2.0 MiB"},
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(slow_ranks_communication_and_the_job_share_a_line) {
  const MemoryPeaks peaks = peaks_of(std::vector<RankMemory>{{56 * gib, 56 * gib, 80 * gib}}, /*are_nodes=*/false);
  StepMetrics metrics = metrics_of(peaks);
  metrics.slowest = {.rank = 5, .ratio = 1.043, .excess_s = 0.1, .exposed_share = 0.118};
  BOOST_TEST(describe_health(metrics, 12011) ==
                 (Lines{"memory: rank 0 fullest, 56.00 GiB; its GPU 70 % of 80.00 GiB",
                        "time: rank 5 slowest, 1.04x median; communication 12 %; job ends in 3:20:11"}),
             boost::test_tools::per_element());
  metrics.slowest->exposed_share.reset();
  BOOST_TEST(describe_health(metrics, {}).back() == "time: rank 5 slowest, 1.04x median");
}

BOOST_AUTO_TEST_CASE(the_longest_have_eighty_columns) {
  StepMetrics metrics =
      metrics_of(peaks_of(std::vector<RankMemory>(10000, {1023 * gib, 1023 * gib, 1023 * gib}), /*are_nodes=*/true));
  metrics.peak_memory.fullest->rank = 9999;
  metrics.slowest = {.rank = 9999, .ratio = 9.99, .excess_s = 1, .exposed_share = 1.0};
  for (const std::string& line : describe_health(metrics, 359999)) BOOST_TEST(line.size() <= 80U, line);
}

BOOST_AUTO_TEST_SUITE_END()
