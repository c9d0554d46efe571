// SPDX-License-Identifier: Apache-2.0
// Checkpoints that are written beside training: the numbers of the run, every checkpoint and what is resumed from one
// are the same bits as where training waits, wherever the state lies and whoever holds it.

#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "sft/checkpoint/checkpoint.hpp"
#include "trainer/program.hpp"
#include "trainer/workshop.hpp"

namespace {

using namespace sft;
using test::check_done;
using test::check_equal;
using test::RunCase;
using test::Workshop;
namespace fs = std::filesystem;

struct SaveCase {
  RunCase run;
  std::function<void(config::Config&)> change = [](config::Config&) {};

  friend std::ostream& operator<<(std::ostream& out, const SaveCase& save) { return out << save.run; }
};

void offload(config::Train& train, config::Offload optimizer, config::Offload parameters) {
  train.offload_optimizer = optimizer;
  train.offload_parameters = parameters;
}

const std::vector<SaveCase> save_cases{
    {{"one rank", {.dp_shard_size = 1}, config::Precision::bf16}},
    {{"four shards", {.dp_shard_size = 4}, config::Precision::fp32}},
    {{"two replicas of two shards, stage 1",
      {.dp_replicate_size = 2, .dp_shard_size = 2, .zero_stage = 1},
      config::Precision::bf16}},
    {{"four ranks at stage 0", {.dp_shard_size = 2, .sp_size = 2, .zero_stage = 0}, config::Precision::fp32}},
    {{"stage 2 x tp 2, moments in files", {.dp_shard_size = 2, .tp_size = 2, .zero_stage = 2}, config::Precision::bf16},
     [](config::Config& c) { offload(c.train, config::Offload::nvme, config::Offload::none); }},
    {{"weights and moments in files", {.dp_shard_size = 2}, config::Precision::bf16},
     [](config::Config& c) { offload(c.train, config::Offload::nvme, config::Offload::nvme); }},
    {{"the same, stepped under the backward pass", {.dp_shard_size = 2}, config::Precision::bf16},
     [](config::Config& c) {
       offload(c.train, config::Offload::nvme, config::Offload::none);
       c.optimizer.max_grad_norm = 0.0;
     }},
    {{"state in host memory", {.dp_shard_size = 2}, config::Precision::bf16},
     [](config::Config& c) { offload(c.train, config::Offload::host, config::Offload::host); }},
    {{"replicas in pure bf16",
      {.dp_replicate_size = 2, .dp_shard_size = 1, .tp_size = 2},
      config::Precision::pure_bf16},
     [](config::Config& c) { c.optimizer.moments_dtype = DType::bf16; }},
    {{"muon", {.dp_shard_size = 2, .tp_size = 2}, config::Precision::fp32},
     [](config::Config& c) { c.optimizer.optim = config::OptimizerKind::muon; }},
    {{"moments in 8 bits", {.dp_shard_size = 4}, config::Precision::bf16},
     [](config::Config& c) { c.optimizer.optim = config::OptimizerKind::adamw_8bit; }},
    {{"adapters", {.dp_replicate_size = 2, .dp_shard_size = 2}, config::Precision::bf16},
     [](config::Config& c) { c.lora.use_peft = true; }},
};

}  // namespace

BOOST_AUTO_TEST_SUITE(saves_beside_training)

BOOST_DATA_TEST_CASE(numbers_and_checkpoints_are_those_of_a_run_that_waits, save_cases, save) {
  const Workshop workshop;
  constexpr std::int64_t max_steps = 4;
  const auto run = [&](const std::string& output, bool is_async, const std::string& resume) {
    test::TrainerProgram program = workshop.start(save.run, output, max_steps, resume, [&](config::Config& config) {
      save.change(config);
      config.checkpoint.async = is_async;
      config.checkpoint.save_steps = 1;
      config.train.offload_folder = workshop.path("offload");
    });
    check_done(program, workshop, output);
    return workshop.log_of(output);
  };
  const std::string beside = "saving checkpoint-000002 beside training";
  BOOST_TEST(run("waits", false, "none").find(beside) == std::string::npos);
  BOOST_TEST(run("beside", true, "none").find(beside) != std::string::npos);
  check_equal(workshop, "waits", "beside", max_steps);
  for (std::int64_t step = 1; step < max_steps; ++step) {
    BOOST_TEST((test::read_checkpoint(checkpoint::path_of(workshop.path("waits"), step)) ==
                test::read_checkpoint(checkpoint::path_of(workshop.path("beside"), step))),
               "the checkpoint of step " << step);
  }

  for (const std::int64_t step : {max_steps, max_steps - 1}) {
    fs::remove_all(checkpoint::path_of(workshop.path("beside"), step));
  }
  static_cast<void>(run("beside", true, "auto"));
  check_equal(workshop, "waits", "beside", max_steps);
}

BOOST_AUTO_TEST_CASE(old_checkpoints_go_beside_training) {
  const Workshop workshop;
  test::TrainerProgram program = workshop.start(test::run_cases[1], "run", 7, "none", [&](config::Config& config) {
    config.checkpoint.async = true;
    config.checkpoint.save_steps = 1;
    config.checkpoint.save_total_limit = 2;
  });
  check_done(program, workshop, "run");
  const std::string output = workshop.path("run");
  BOOST_TEST(checkpoint::list(output) ==
                 (std::vector<std::string>{checkpoint::path_of(output, 6), checkpoint::path_of(output, 7)}),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_SUITE_END()
