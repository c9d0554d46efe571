// SPDX-License-Identifier: Apache-2.0
// The timeline of the whole program: it has the steps that were asked for, of all ranks, with ranges that fit into each
// other, and training is the same to the last bit.

#include <algorithm>
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "trainer/program.hpp"
#include "trainer/workshop.hpp"

namespace {

using namespace sft;
using test::check_done;
using test::check_equal;
using test::RunCase;
using test::Workshop;
namespace fs = std::filesystem;

struct Range {
  std::string name;
  double begin_us, end_us;
};

/// What trace.json holds.
struct Trace {
  explicit Trace(const std::string& path) {
    std::ifstream file(path);
    BOOST_TEST_REQUIRE(file.is_open(), path);
    std::map<std::pair<int, int>, std::string> tracks;
    const auto json = nlohmann::json::parse(file);
    for (const auto& event : json.at("traceEvents")) {
      if (event.at("name") == "thread_name") tracks[{event.at("pid"), event.at("tid")}] = event.at("args").at("name");
      if (event.at("ph") != "X") continue;
      const double begin_us = event.at("ts"), duration_us = event.at("dur");
      BOOST_TEST(begin_us >= 0);
      BOOST_TEST(duration_us >= 0);
      const int rank = event.at("pid");
      ranges[rank][tracks.at({rank, event.at("tid")})].push_back({event.at("name"), begin_us, begin_us + duration_us});
    }
  }

  [[nodiscard]] std::ptrdiff_t count(int rank, const std::string& track, const std::string& name) const {
    const auto& of_rank = ranges.at(rank);
    return of_rank.contains(track) ? std::ranges::count(of_rank.at(track), name, &Range::name) : 0;
  }

  std::map<int, std::map<std::string, std::vector<Range>>> ranges;  ///< of each rank and track
};

/// Ranges of a track follow one another, or lie in one another.
void check_nesting(std::vector<Range> ranges) {
  std::ranges::sort(ranges, [](const Range& a, const Range& b) {
    return a.begin_us != b.begin_us ? a.begin_us < b.begin_us : a.end_us > b.end_us;
  });
  constexpr double rounding_us = 0.0015;  // of two numbers with three decimals
  std::vector<Range> around;
  for (const Range& range : ranges) {
    while (!around.empty() && around.back().end_us <= range.begin_us + rounding_us) around.pop_back();
    if (!around.empty()) {
      BOOST_TEST(range.end_us <= around.back().end_us + rounding_us,
                 range.name << " ends behind " << around.back().name);
    }
    around.push_back(range);
  }
}

const std::vector<RunCase> cases{
    {"one rank, float32", {.dp_shard_size = 1}, config::Precision::fp32},
    {"dp_shard 2 x sp 2, bf16", {.dp_shard_size = 2, .sp_size = 2}, config::Precision::bf16},
    {"dp_replicate 2 x tp 2, full, float32",
     {.dp_replicate_size = 2, .dp_shard_size = 1, .tp_size = 2},
     config::Precision::fp32,
     config::ActivationCheckpointing::full},
};

/// What a rank of `run` must have noted in steps 2 and 3, of 2 micro-batches each.
void check_rank(const Trace& trace, int rank, const RunCase& run) {
  BOOST_TEST_CONTEXT("rank " << rank) {
    for (const auto& [track, ranges] : trace.ranges.at(rank)) check_nesting(ranges);
    const auto count = [&](const char* track, const char* name) { return trace.count(rank, track, name); };
    const config::Parallel& sizes = run.parallel;
    const bool recomputes = run.checkpointing == config::ActivationCheckpointing::full;
    for (const char* step : {"step 2", "step 3"}) BOOST_TEST(count("host", step) == 1);
    for (const char* step : {"step 1", "step 4"}) BOOST_TEST(count("host", step) == 0);
    BOOST_TEST(count("host", "save checkpoint") == 1);
    BOOST_TEST(count("host", "micro-batch 1") == 2);
    BOOST_TEST(count("host", "read batch") == 4);
    BOOST_TEST(count("compute", "block 1 forward") == 4);
    BOOST_TEST(count("compute", "block 1 backward") == 4);
    BOOST_TEST(count("compute", "block 0 recompute") == (recomputes ? 4 : 0));
    BOOST_TEST(count("compute", "loss head") == 4);
    BOOST_TEST(count("compute", "optimizer") == 2);
    const bool is_sharded = sizes.dp_shard_size > 1;
    BOOST_TEST((count("gathers", "fsdp all_gather") > 0) == is_sharded);
    BOOST_TEST((count("communication", "fsdp reduce_scatter_add") > 0) == is_sharded);
    BOOST_TEST((count("gathers", "model.layers.1 gather") > 0) == is_sharded);
    BOOST_TEST((count("communication", "dp_replicate all_reduce") > 0) == (sizes.dp_replicate_size > 1));
    BOOST_TEST((count("ring", "sp exchange") > 0) == (sizes.sp_size > 1));
    for (const char* name : {"tp reduce_scatter", "tp all_gather"}) {
      BOOST_TEST((count("tp", name) > 0) == (sizes.tp_size > 1));
    }
  }
}

void profile(config::Config& config, std::int64_t first, std::int64_t last) {
  config.train.profile_steps = {first, last};
}

}  // namespace

BOOST_AUTO_TEST_SUITE(timeline)

BOOST_DATA_TEST_CASE(a_profiled_run_trains_like_another_and_leaves_a_timeline_of_all_ranks,
                     boost::unit_test::data::make(cases), run) {
  const Workshop workshop;
  constexpr std::int64_t max_steps = 4;  // of 2 micro-batches; saves steps 2 and 4
  test::TrainerProgram plain = workshop.start(run, "plain", max_steps, "none");
  check_done(plain, workshop, "plain");
  BOOST_TEST(!fs::exists(workshop.path("plain/trace.json")));
  test::TrainerProgram profiled =
      workshop.start(run, "profiled", max_steps, "none", [](config::Config& config) { profile(config, 2, 3); });
  check_done(profiled, workshop, "profiled");
  check_equal(workshop, "plain", "profiled", max_steps);

  BOOST_TEST(!fs::exists(workshop.path("profiled/trace.json.tmp")));
  const Trace trace(workshop.path("profiled/trace.json"));
  BOOST_TEST(std::ssize(trace.ranges) == run.num_ranks());
  for (const auto& [rank, tracks] : trace.ranges) check_rank(trace, rank, run);
}

BOOST_AUTO_TEST_CASE(a_run_that_ends_within_the_range_leaves_the_steps_that_it_had) {
  const Workshop workshop;
  test::TrainerProgram program =
      workshop.start(cases.front(), "short", 2, "none", [](config::Config& config) { profile(config, 2, 100); });
  check_done(program, workshop, "short");
  const Trace trace(workshop.path("short/trace.json"));
  BOOST_TEST(trace.count(0, "host", "step 1") == 0);
  BOOST_TEST(trace.count(0, "host", "step 2") == 1);
}

BOOST_AUTO_TEST_CASE(a_range_behind_the_last_step_is_warned_of) {
  const Workshop workshop;
  test::TrainerProgram program =
      workshop.start(cases.front(), "late", 2, "none", [](config::Config& config) { profile(config, 3, 3); });
  check_done(program, workshop, "late");
  BOOST_TEST(!fs::exists(workshop.path("late/trace.json")));
  BOOST_TEST(workshop.log_of("late").find("warning: train.profile_steps = 3 comes behind the last step") !=
             std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()
