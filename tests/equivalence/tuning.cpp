// SPDX-License-Identifier: Apache-2.0
// Ten training steps with other losses, with noise and with adapters of every kind, on every mesh of the table, are
// those of one rank.

#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "equivalence/lone_runs.hpp"
#include "equivalence/trajectory.hpp"
#include "support/mpi_session.hpp"

namespace {

using namespace sft;
using test::Deviation;
using test::session;

config::Parallel parallel_of(const test::MeshCase& mesh_case) {
  config::Parallel parallel;
  parallel.reshard_after_forward = mesh_case.reshard;
  return parallel;
}

/// The meshes of all ranks.
std::vector<test::MeshCase> own_cases() { return test::meshes_of(session().world().size()); }

/// Every kind of adapters on every mesh, in every stage or in one of them, by turns.
void adapters_train_like_one_rank(bool in_every_stage) {
  constexpr int stages[] = {3, 0, 2};
  std::size_t turn = 0;
  using Change = void (*)(config::Lora&);
  const std::pair<const char*, Change> changes[] = {
      {"ranks",
       [](config::Lora& l) {
         l.rank_pattern = {{"q_proj", 3}, {"layers.1.*", 5}}, l.alpha_pattern = {{"o_proj", 2}};
       }},
      {"one block, both random",
       [](config::Lora& l) { l.layers_to_transform = {1}, l.init_lora_weights.kind = config::LoraInit::linear; }},
      {"magnitudes", [](config::Lora& l) { l.use_dora = true, l.lora_r = 5; }},
      {"magnitudes of some, both random",
       [](config::Lora& l) {
         l.use_dora = true, l.init_lora_weights.kind = config::LoraInit::linear,
         l.lora_target_modules = {"q_proj", "down_proj"};
       }},
      {"PiSSA", [](config::Lora& l) { l.lora_r = 5, l.init_lora_weights.kind = config::LoraInit::pissa; }},
      {"PiSSA, nearly, of ranks",
       [](config::Lora& l) {
         l.init_lora_weights = {config::LoraInit::pissa, 4};
         l.rank_pattern = {{"q_proj", 3}, {"layers.1.*", 5}}, l.use_rslora = true;
       }},
      {"OLoRA, magnitudes",
       [](config::Lora& l) { l.lora_r = 4, l.use_dora = true, l.init_lora_weights.kind = config::LoraInit::olora; }},
      {"whole modules, LoRA+, gaussian", [](config::Lora& l) {
         l.modules_to_save = {"norm"}, l.loraplus_lr_ratio = 3.0, l.init_lora_weights.kind = config::LoraInit::gaussian;
       }}};
  const auto task_of_case = [](const test::MeshCase& mesh_case) {
    test::Task task = task_of(mesh_case);
    task.use_peft = true;
    return task;
  };
  const auto config_of = [](const test::Task& task, Change change) {
    config::Config config;
    config.train.precision = config::Precision::fp32;
    change(config.lora);
    if (!task.model().tie_word_embeddings && !config.lora.modules_to_save.empty()) {
      config.lora.modules_to_save = {"norm", "embed_tokens", "lm_head"};
    }
    return config;
  };
  test::LoneRuns lone_runs;
  for (const test::MeshCase& mesh_case : own_cases()) {
    const test::Task task = task_of_case(mesh_case);
    lone_runs.add(task, "plain", config_of(task, [](config::Lora&) {}));
    for (const auto& [name, change] : changes) lone_runs.add(task, name, config_of(task, change));
  }
  lone_runs.train(session());
  for (const test::MeshCase& mesh_case : own_cases()) {
    const test::Task task = task_of_case(mesh_case);
    for (const auto& [name, change] : changes) {
      config::Config config = config_of(task, change);
      const test::Trajectory& alone = lone_runs.of(task, name);
      // They are other adapters.
      BOOST_TEST(test::deviation(alone, lone_runs.of(task, "plain")).grad_norm > 1e-3, name);
      ++turn;
      for (std::size_t i = 0; i < std::size(stages); ++i) {
        if (!in_every_stage && i != turn % std::size(stages)) continue;
        const int zero_stage = stages[i];
        config.parallel = parallel_of(mesh_case);
        config.parallel.zero_stage = zero_stage;
        if (zero_stage < 3) config.parallel.reshard_after_forward = config::Reshard::always;
        config.parallel.tp_sequence_parallel = zero_stage == 2;
        const test::Mesh mesh(session().world(), mesh_case.layout, task.model(), config.parallel);
        const Deviation worst = test::deviation(test::train(task, config, mesh, session()), alone);
        BOOST_TEST_MESSAGE(name << " on " << mesh_case.layout.describe() << ", stage " << zero_stage << ": loss "
                                << worst.loss << ", grad norm " << worst.grad_norm);
        BOOST_TEST(worst.loss <= 1e-5);
        BOOST_TEST(worst.grad_norm <= 1e-4);
      }
    }
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(tuning)

BOOST_AUTO_TEST_CASE(other_losses_and_noise_train_like_one_rank) {
  using Change = void (*)(config::Train&);
  const std::pair<const char*, Change> changes[] = {
      {"dft", [](config::Train& t) { t.loss_type = config::LossType::dft; }},
      {"smoothing", [](config::Train& t) { t.label_smoothing_factor = 0.2; }},
      {"noise", [](config::Train& t) { t.neftune_noise_alpha = 5.0; }}};
  const auto config_of = [](Change change) {
    config::Config config;
    config.train.precision = config::Precision::fp32;
    change(config.train);
    return config;
  };
  test::LoneRuns lone_runs;
  for (const test::MeshCase& mesh_case : own_cases()) {
    lone_runs.add(task_of(mesh_case), "plain", config_of([](config::Train&) {}));
    for (const auto& [name, change] : changes) lone_runs.add(task_of(mesh_case), name, config_of(change));
  }
  lone_runs.train(session());
  for (const test::MeshCase& mesh_case : own_cases()) {
    const test::Task task = task_of(mesh_case);
    for (const auto& [name, change] : changes) {
      config::Config config = config_of(change);
      const test::Trajectory& alone = lone_runs.of(task, name);
      BOOST_TEST(test::deviation(alone, lone_runs.of(task, "plain")).loss > 1e-3, name);  // it is another loss
      for (const bool cuts_tokens : {false, true}) {
        config.parallel = parallel_of(mesh_case);
        config.parallel.tp_sequence_parallel = cuts_tokens;
        const test::Mesh mesh(session().world(), mesh_case.layout, task.model(), config.parallel);
        const Deviation worst = test::deviation(test::train(task, config, mesh, session()), alone);
        BOOST_TEST_MESSAGE(name << " on " << mesh_case.layout.describe() << ": loss " << worst.loss << ", grad norm "
                                << worst.grad_norm);
        BOOST_TEST(worst.loss <= 1e-5);
        BOOST_TEST(worst.grad_norm <= 1e-4);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(adapters_of_every_kind_train_like_one_rank) { adapters_train_like_one_rank(false); }

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(tuning_stages)

BOOST_AUTO_TEST_CASE(adapters_of_every_kind_train_like_one_rank_in_every_stage) { adapters_train_like_one_rank(true); }

BOOST_AUTO_TEST_SUITE_END()
