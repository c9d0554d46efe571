// SPDX-License-Identifier: Apache-2.0
// What ranks that share experts keep: a checkpoint goes on with any other number of them, an evaluation finds what one
// rank finds and leaves no trace, and the memory is what was planned, byte for byte.

#include <fmt/format.h>
#include <boost/test/unit_test.hpp>
#include <optional>
#include <vector>

#include "experts/expert_runs.hpp"
#include "sft/checkpoint/checkpoint.hpp"
#include "sft/device/factory.hpp"
#include "sft/machine/node.hpp"
#include "sft/rank/datasets.hpp"
#include "sft/rank/memory.hpp"
#include "support/awkward_data.hpp"
#include "support/checkpoint_fixture.hpp"
#include "support/mpi_session.hpp"
#include "support/packed_file.hpp"
#include "support/temporary_folder.hpp"
#include "train/evaluation.hpp"

BOOST_AUTO_TEST_SUITE(expert_state)

namespace {

using namespace sft;
using test::session;
using test::StepNumbers;

/// Of as many ranks as there are, with another ep_size each.
std::vector<mesh::Layout> own_layouts() {
  const std::vector<mesh::Layout> layouts{{},
                                          {{Axis::dp_shard, 2}},
                                          {{Axis::ep, 2}},
                                          {{Axis::ep, 4}},
                                          {{Axis::dp_shard, 2}, {Axis::ep, 2}},
                                          {{Axis::ep, 2}, {Axis::tp, 2}},
                                          {{Axis::dp_shard, 4}, {Axis::ep, 2}},
                                          {{Axis::ep, 8}},
                                          {{Axis::sp, 2}, {Axis::ep, 2}, {Axis::tp, 2}}};
  std::vector<mesh::Layout> own;
  for (const mesh::Layout& layout : layouts) {
    if (layout.size() == session().world().size()) own.push_back(layout);
  }
  return own;
}

test::Mesh mesh_of(const config::Config& config, const mesh::Layout& layout) {
  return {session().world(), layout, config.model, config.parallel};
}

/// Rows as a data set of files, for training and evaluation.
struct Data {
  Data() {
    const auto train_rows = test::make_awkward_rows(8, test::expert_max_length, 1);
    const auto eval_rows = test::make_awkward_rows(23, test::expert_max_length, 9);  // fill the last batch of no mesh
    test::write_packed_file(folder.file("train.h5"), train_rows, test::small_vocab_size);
    test::write_packed_file(folder.file("eval.h5"), eval_rows, test::small_vocab_size);
    datasets.emplace(rank::Datasets{.train = rows::PackedDataset({folder.file("train.h5")}),
                                    .eval = rows::PackedDataset({folder.file("eval.h5")})});
  }
  test::TemporaryFolder folder;
  std::optional<rank::Datasets> datasets;
};

double eval_loss(test::EngineFixture& fixture, const Data& data) {
  const rows::LoaderPlan plan = rank::eval_loader_plan(fixture.config(), fixture.mesh().place, *data.datasets);
  const auto never = [](std::int64_t, std::int64_t) { return 0; };
  return train::evaluate(fixture.engine(), *data.datasets->eval, plan, 0, fixture.mesh().groups, never).result.loss;
}

}  // namespace

BOOST_AUTO_TEST_CASE(checkpoints_go_on_with_any_number_of_ranks_for_experts) {
  constexpr std::int64_t num_steps = 6, half = 3;
  const std::vector<mesh::Layout> layouts = own_layouts();
  std::vector<test::ExpertOptimizer> optimizers(test::expert_optimizers.begin(), test::expert_optimizers.end());
  optimizers.push_back({"AdamW", config::OptimizerKind::adamw_torch, 16, 1e-5});
  for (const test::ExpertOptimizer& of : optimizers) {
    config::Config config = test::expert_config();
    of.set(config);
    const StepNumbers whole = test::by_first_rank(session(), 2 * num_steps, [&] {
      return test::train_experts(config, test::make_lone_mesh(config.model), session(), num_steps);
    });
    const StepNumbers expected(whole.begin() + 2 * half, whole.end());
    const std::unique_ptr<device::Device> device = device::make_device(device::Kind::cpu);
    for (std::size_t i = 0; i < layouts.size(); ++i) {
      const mesh::Layout& writer = layouts[i];
      const mesh::Layout& reader = layouts[(i + 1) % layouts.size()];
      const test::SharedFolder folder(session().world());
      const auto nothing = [](test::EngineFixture&) {};
      const test::Mesh first = mesh_of(config, writer);
      (void)test::train_experts(config, first, session(), half, 0, nothing, [&](test::EngineFixture& fixture) {
        checkpoint::save(folder.path(), config, "byte", first.place, first.groups, fixture.engine().state(),
                         {.step = half}, *device, fixture.engine().stream());
      });
      const auto load = [&](test::EngineFixture& fixture) {
        (void)checkpoint::load(checkpoint::path_of(folder.path(), half), session().world(), fixture.engine().state(),
                               *device, fixture.engine().stream());
      };
      const StepNumbers found = test::train_experts(config, mesh_of(config, reader), session(), num_steps, half, load);
      test::check_steps(fmt::format("{}, {}, then {}", of.name, writer.describe(), reader.describe()), found, expected,
                        of.tolerance);
    }
  }
}

BOOST_AUTO_TEST_CASE(evaluations_find_what_one_rank_finds_and_leave_no_trace) {
  const Data data;
  const config::Config config = test::expert_config();
  const auto nothing = [](test::EngineFixture&) {};
  const auto losses_on = [&](const test::Mesh& mesh, StepNumbers& steps) {
    std::vector<double> losses;
    const auto evaluate = [&](test::EngineFixture& fixture) { losses.push_back(eval_loss(fixture, data)); };
    steps = test::train_experts(config, mesh, session(), 3, 0, evaluate, evaluate);
    return losses;
  };
  const std::vector<double> expected = test::by_first_rank(session(), 2, [&] {
    StepNumbers steps;
    return losses_on(test::make_lone_mesh(config.model), steps);
  });
  for (const mesh::Layout& layout : own_layouts()) {
    StepNumbers steps;
    const std::vector<double> losses = losses_on(mesh_of(config, layout), steps);
    const StepNumbers plain = test::train_experts(config, mesh_of(config, layout), session(), 3, 0, nothing);
    BOOST_TEST_CONTEXT(layout.describe()) {
      BOOST_TEST((steps == plain));
      for (const std::size_t i : {0, 1}) BOOST_TEST(test::relative_distance(losses[i], expected[i]) <= 1e-5);
    }
  }
}

BOOST_AUTO_TEST_CASE(memory_is_what_was_planned) {
  const Data data;
  for (const mesh::Layout& layout : own_layouts()) {
    for (const auto policy : {config::ActivationCheckpointing::none, config::ActivationCheckpointing::full}) {
      for (const int number : {0, 1, 2, 3, 4, 5}) {
        const int stage = number % 4;
        config::Config config = test::expert_config();
        if (number >= 4) {  // adapters of experts
          config.lora.use_peft = true;
          config.lora.lora_dropout = 0.0;
          config.lora.lora_target_parameters = {"experts.gate_up_proj", "experts.down_proj"};
          config.lora.rank_pattern = {{"experts.down_proj", 24}};
          if (number == 5) config.lora.lora_target_modules = {};
        }
        config.train.precision = config::Precision::bf16;
        config.train.activation_checkpointing = policy;
        config.parallel.zero_stage = stage;
        config.train.per_device_train_batch_size = 2;
        const test::Mesh mesh = mesh_of(config, layout);
        const test::EngineFixture fixture(config, test::expert_max_length, mesh, session());
        const device::Ledger planned = rank::plan_ledger(test::with_mesh(config, layout), *data.datasets, mesh.place,
                                                         {device::Kind::cpu, machine::num_threads()}, 0);
        for (std::size_t i = 0; i < device::num_labels; ++i) {
          const auto label = static_cast<device::Label>(i);
          if (label == device::Label::process || label == device::Label::batches) continue;
          BOOST_TEST(planned.bytes(label) == fixture.ledger().bytes(label),
                     layout.describe() << ", number " << number << ": " << device::name_of(label));
        }
      }
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
