// SPDX-License-Identifier: Apache-2.0
#include "sft/launch/interview.hpp"

#include <boost/test/unit_test.hpp>
#include <set>
#include <sstream>

#include "sft/config/parse.hpp"
#include "support/config_error.hpp"

using namespace sft;
using launch::Facts;
using launch::FileAnswerer;
using launch::LineAnswerer;
using launch::SiteAnswers;
using test::check_says;
using test::refusal;

namespace {

constexpr std::int64_t billion = 1000000000;

/// Nobody plans.
launch::Proposer rules_for(std::int64_t num_parameters) {
  return {[=](const std::string&) { return num_parameters; }};
}

SiteAnswers answers_of(const std::string& file, const Facts& facts = {}, std::int64_t num_parameters = 0) {
  FileAnswerer answerer(file, "answers.txt");
  SiteAnswers answers = launch::ask(answerer, facts, rules_for(num_parameters));
  answerer.finish();
  return answers;
}

config::Config config_of(const SiteAnswers& answers) { return config::parse(launch::ini_text(answers), {}, "run.ini"); }

}  // namespace

BOOST_AUTO_TEST_SUITE(interview)

BOOST_AUTO_TEST_CASE(answers_become_keys) {
  const config::Config config = config_of(answers_of(
      "# a comment\nmodel = org/name\nnum_machines = 2\nranks_per_machine = 8\nzero_stage = 2\nsp_size = 4\n"
      "mixed_precision = pure_bf16\noffload = nvme\noffload_folder = /local\nactivation_checkpointing = selective\n"
      "per_device_train_batch_size = 3\ngradient_accumulation_steps = 5\nlearning_rate = 1e-4\noutput_dir = here\n"));
  BOOST_TEST(config.model.model_name_or_path == "org/name");
  BOOST_TEST(config.parallel.zero_stage == 2);
  BOOST_TEST(config.parallel.sp_size == 4);
  BOOST_TEST((config.train.precision == config::Precision::pure_bf16));
  BOOST_TEST((config.train.offload_optimizer == config::Offload::nvme));
  BOOST_TEST(config.train.offload_folder == "/local");
  BOOST_TEST((config.train.activation_checkpointing == config::ActivationCheckpointing::selective));
  BOOST_TEST(config.train.per_device_train_batch_size == 3);
  BOOST_TEST(config.train.gradient_accumulation_steps == 5);
  BOOST_TEST(config.optimizer.learning_rate == 1e-4);
  BOOST_TEST(config.train.output_dir == "here");
}

BOOST_AUTO_TEST_CASE(stages_are_proposed_by_memory) {
  const Facts facts{.num_gpus = 8};
  const auto stage = [&](std::int64_t num_parameters) {
    return answers_of("model = m\n", facts, num_parameters).zero_stage;
  };
  BOOST_TEST(stage(billion) == "0");      // 16 of 80 GB
  BOOST_TEST(stage(4 * billion) == "1");  // 64 GB: weights and gradients are 32, and an eighth of the rest 4
  BOOST_TEST(stage(7 * billion) == "2");  // 112 GB: weights are 28, and an eighth of the rest 10.5
  BOOST_TEST(stage(30 * billion) == "3");
  BOOST_TEST(answers_of("model = m\n", facts, 30 * billion).offload == "none");
  BOOST_TEST(answers_of("model = m\n", facts, 70 * billion).offload == "host");  // 140 GB a rank
  BOOST_TEST(answers_of("model = m\n", {}, billion).zero_stage == "0");          // one rank
}

BOOST_AUTO_TEST_CASE(long_rows) {
  const SiteAnswers answers = answers_of("model = m\nmax_length = 32768\n");
  BOOST_TEST(answers.activation_checkpointing == "full");
  BOOST_TEST(answers.rows_per_rank == 1);
}

BOOST_AUTO_TEST_CASE(sizes_are_those_of_the_plan) {
  std::vector<std::set<std::string>> constraints;
  const launch::Proposer planner{
      [](const std::string&) { return billion; },
      [&](const SiteAnswers& answers, const std::set<std::string>& fixed) -> std::optional<launch::Sizes> {
        constraints.push_back(fixed);
        launch::Sizes sizes{.dp_replicate_size = 2, .sp_size = 4, .tp_size = 2, .zero_stage = "1"};
        if (fixed.contains("tp_size")) sizes.sp_size = 16 / answers.tp_size;
        return sizes;
      }};
  const auto ask = [&](const std::string& file) {
    FileAnswerer answerer(file, "answers.txt");
    return launch::ask(answerer, {}, planner);
  };
  const SiteAnswers as_proposed = ask("model = m\nranks_per_machine = 16\n");
  BOOST_TEST(as_proposed.tp_size == 2);
  BOOST_TEST(as_proposed.sp_size == 4);
  BOOST_TEST(as_proposed.zero_stage == "1");
  BOOST_TEST(constraints.size() == 1U);  // nothing to plan anew
  check_says(launch::ini_text(as_proposed), "Sizes were proposed by the planner");
  const SiteAnswers otherwise = ask("model = m\nranks_per_machine = 16\ntp_size = 8\n");
  BOOST_TEST(otherwise.sp_size == 2);
  BOOST_TEST(constraints.back() == std::set<std::string>{"tp_size"}, boost::test_tools::per_element());
  BOOST_TEST(config_of(otherwise).parallel.dp_replicate_size == 2);
}

BOOST_AUTO_TEST_CASE(rows_of_a_step) {
  BOOST_TEST(answers_of("model = m\nranks_per_machine = 4\n").rows_per_step == 32);
  const SiteAnswers answers = answers_of("model = m\nranks_per_machine = 4\nrows_per_step = 256\n");
  BOOST_TEST(answers.rows_per_rank * answers.gradient_accumulation_steps * 4 == 256);
}

BOOST_AUTO_TEST_CASE(script_of_slurm) {
  const SiteAnswers answers = answers_of(
      "model = m\nnum_machines = 4\nranks_per_machine = 8\nuse_gpus = yes\nuse_slurm = yes\npartition = gpu\n"
      "account = me\ntime = 1:00:00\n");
  const std::string script = launch::job_script(answers, {.pmi = "pmix"}, "/bin/sft-run", "run.ini");
  for (const char* line : {"#SBATCH --nodes=4\n", "#SBATCH --ntasks-per-node=8\n", "#SBATCH --gpus-per-node=8\n",
                           "#SBATCH --partition=gpu\n", "#SBATCH --account=me\n", "#SBATCH --time=1:00:00\n",
                           "srun --mpi=pmix ", "--requeue --restarts 10"}) {
    check_says(script, line);
  }
}

BOOST_AUTO_TEST_CASE(script_of_machines_without_slurm) {
  const SiteAnswers one = answers_of("model = m\nranks_per_machine = 4\n");
  check_says(launch::job_script(one, {}, "/bin/sft-run", "run.ini"), "exec /bin/sft-run -n 4 run.ini");
  check_says(launch::job_script(one, {}, "/a b/sft-run", "$my run.ini"), "exec '/a b/sft-run' -n 4 '$my run.ini'");
  const SiteAnswers two = answers_of("model = m\nnum_machines = 2\nranks_per_machine = 4\n");
  check_says(launch::job_script(two, {}, "/bin/sft-run", "run.ini"), "mpirun --hostfile hosts -np 8");
}

BOOST_AUTO_TEST_CASE(answers_that_cannot_be_used) {
  check_says(refusal([] { static_cast<void>(answers_of("model = m\nzero_stage = 4\n")); }), "one of 0, 1, 2, 3");
  check_says(refusal([] { static_cast<void>(answers_of("model = m\nnum_machines = 0\n")); }), "whole number from 1");
  check_says(refusal([] { static_cast<void>(answers_of("model = m\nzero_stge = 3\n")); }), "did you mean zero_stage?");
  check_says(refusal([] { static_cast<void>(answers_of("zero_stage = 3\n")); }), "has no default");
  check_says(refusal([] { static_cast<void>(answers_of("model\n")); }), "answers.txt:1");
}

BOOST_AUTO_TEST_CASE(a_person_is_asked_again) {
  std::istringstream in("m\n\n\nmany\n2\n");
  std::ostringstream out;
  LineAnswerer terminal(in, out, /*is_terminal=*/true);
  BOOST_TEST(launch::ask(terminal, {}, rules_for(0)).num_machines == 2);
  check_says(out.str(), "`many` is not valid: it is a whole number from 1");
  check_says(out.str(), "Learning rate [2e-5]: ");
}

BOOST_AUTO_TEST_CASE(lines_of_a_pipe) {
  const auto answers = [](const std::string& text) {
    std::istringstream in(text);
    std::ostringstream out;
    LineAnswerer pipe(in, out, /*is_terminal=*/false);
    return launch::ask(pipe, {}, rules_for(0));
  };
  BOOST_TEST(answers("m\nrows.h5\n").train_files == "rows.h5");
  check_says(refusal([&] { static_cast<void>(answers("m\n\n\nmany\n2\n")); }), "on standard input");
  check_says(refusal([&] { static_cast<void>(answers("")); }), "has no default");
}

BOOST_AUTO_TEST_SUITE_END()
