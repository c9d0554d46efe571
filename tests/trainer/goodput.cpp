// SPDX-License-Identifier: Apache-2.0
// Where a run's time goes, by the whole program: a run that is killed says how long it was down and what it repeats.

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "sft/core/format.hpp"
#include "trainer/program.hpp"
#include "trainer/workshop.hpp"

namespace {

using namespace sft;
using test::run_cases;
namespace fs = std::filesystem;

std::vector<nlohmann::json> json_lines_of(const std::string& path) {
  std::vector<nlohmann::json> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const auto json = nlohmann::json::parse(line, nullptr, false);
    if (!json.is_discarded()) lines.push_back(json);
  }
  return lines;
}

/// Waits until nobody writes to the file any more.
void wait_until_still(const std::string& path) {
  for (auto size = fs::file_size(path);; size = fs::file_size(path)) {
    std::this_thread::sleep_for(std::chrono::seconds(1));
    if (fs::file_size(path) == size) return;
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(goodput)

BOOST_AUTO_TEST_CASE(a_killed_run_goes_on_and_says_what_it_repeats) {
  const test::Workshop workshop;
  const auto change = [](config::Config& config) {
    config.checkpoint.save_steps = 100;
    config.optimizer.lr_scheduler_type = config::Scheduler::constant;
  };
  const std::string metrics = workshop.path("run/metrics.jsonl");
  test::TrainerProgram killed = workshop.start(run_cases[1], "run", 1000000, "none", change);
  while (killed.is_running() && test::read_metrics(workshop.path("run")).size() < 120) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  killed.send(SIGKILL);
  (void)killed.wait();
  wait_until_still(metrics);
  const std::int64_t last = json_lines_of(metrics).back()["step"];
  const std::int64_t saved = checkpoint::read_header(checkpoint::list(workshop.path("run")).back()).position.step;
  BOOST_TEST_REQUIRE(saved >= 100);

  setenv("SFT_RESTARTS", "4", 1);
  test::TrainerProgram resumed = workshop.start(run_cases[1], "run", saved + 10, "auto", change);
  unsetenv("SFT_RESTARTS");
  test::check_done(resumed, workshop, "run");
  const std::string log = workshop.log_of("run");
  BOOST_TEST(log.find("resumed after ") != std::string::npos, log);
  BOOST_TEST(log.find(", " + plural(last - saved, "step") + " repeated") != std::string::npos, log);
  BOOST_TEST(log.find("since the first start") != std::string::npos, log);

  const nlohmann::json line = json_lines_of(metrics).back();
  BOOST_TEST(line["restarts"] == 4);  // by the launcher's count
  BOOST_TEST(line["repeated_steps"] == last - saved);
  const double total_s = line["run_time_s"];
  double known_s = 0.0;
  for (const char* part : {"useful_time_s", "save_time_s", "eval_time_s", "restart_time_s", "repeated_time_s"}) {
    known_s += line[part].get<double>();
  }
  BOOST_TEST(known_s > 0.5 * total_s);
  BOOST_TEST(known_s <= total_s * (1 + 1e-9));
  BOOST_TEST(line["restart_time_s"].get<double>() > 1.0);  // it was down while the test waited
  BOOST_TEST(line["goodput"].get<double>() == line["useful_time_s"].get<double>() / total_s);
  BOOST_TEST((last == saved) == (line["repeated_time_s"].get<double>() == 0.0));

  const std::vector<nlohmann::json> starts = json_lines_of(workshop.path("run/starts.jsonl"));
  BOOST_TEST_REQUIRE(starts.size() == 2U);
  BOOST_TEST(starts[0]["run_id"] == starts[1]["run_id"]);
  BOOST_TEST(starts[0]["step"] == 0);
  BOOST_TEST(starts[1]["step"] == saved);
}

BOOST_AUTO_TEST_SUITE_END()
