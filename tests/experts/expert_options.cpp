// SPDX-License-Identifier: Apache-2.0
// What a run chooses beside ep_size changes no number of ranks that share experts: every stage with every
// recomputation, state and parameters elsewhere, several micro-batches, adapters on attention beside experts that are
// not trained, optimizers of whole matrices, of rows and columns and of blocks.

#include <fmt/format.h>
#include <boost/test/unit_test.hpp>
#include <functional>
#include <string>
#include <vector>

#include "experts/expert_runs.hpp"
#include "support/mpi_session.hpp"
#include "support/temporary_folder.hpp"

namespace {

using namespace sft;
using config::ActivationCheckpointing;
using config::Offload;
using test::session;
using test::StepNumbers;

using Change = std::function<void(config::Config&)>;

const std::vector<mesh::Layout> layouts{{{Axis::ep, 2}},
                                        {{Axis::dp_shard, 2}, {Axis::ep, 2}},
                                        {{Axis::ep, 4}},
                                        {{Axis::ep, 2}, {Axis::tp, 2}},
                                        {{Axis::dp_shard, 2}, {Axis::ep, 2}, {Axis::tp, 2}}};

constexpr std::int64_t num_steps = 10;

StepNumbers alone(const config::Config& config) {
  return test::by_first_rank(session(), 2 * num_steps, [&] {
    return test::train_experts(config, test::make_lone_mesh(config.model), session(), num_steps);
  });
}

StepNumbers on_mesh(const config::Config& config, const mesh::Layout& layout) {
  const test::Mesh mesh(session().world(), layout, config.model, config.parallel);
  return test::train_experts(config, mesh, session(), num_steps);
}

template <class Visit>
void for_each_layout(const Visit& visit) {
  for (const mesh::Layout& layout : layouts) {
    if (layout.size() == session().world().size()) visit(layout);
  }
}

/// One way to train, on one rank and on every mesh, with every one of `elsewhere` there.
void check(const char* name, const config::Config& config, const std::vector<Change>& elsewhere,
           double tolerance = 1e-5) {
  const StepNumbers expected = alone(config);
  for_each_layout([&](const mesh::Layout& layout) {
    for (std::size_t i = 0; i < elsewhere.size(); ++i) {
      config::Config changed = config;
      elsewhere[i](changed);
      test::check_steps(fmt::format("{} on {}, choice {}", name, layout.describe(), i), on_mesh(changed, layout),
                        expected, tolerance);
    }
  });
}

std::vector<Change> stages(const std::vector<int>& which) {
  std::vector<Change> changes;
  for (const int stage : which) {
    changes.emplace_back([=](config::Config& c) { c.parallel.zero_stage = stage; });
  }
  return changes;
}

/// Every stage with every recomputation, or each of both once or twice.
void check_stages(bool with_every_recomputation) {
  const auto policies = {ActivationCheckpointing::none, ActivationCheckpointing::selective,
                         ActivationCheckpointing::full};
  std::vector<Change> changes;
  int number = 0;
  for (const auto policy : policies) {
    for (int stage = 0; stage < 4; ++stage) {
      if (!with_every_recomputation && stage % 3 != number % 3) continue;
      changes.emplace_back(
          [=](config::Config& c) { c.parallel.zero_stage = stage, c.train.activation_checkpointing = policy; });
    }
    ++number;
  }
  check("AdamW", test::expert_config(), changes);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(expert_options)

BOOST_AUTO_TEST_CASE(every_stage_and_every_recomputation) { check_stages(false); }

BOOST_AUTO_TEST_CASE(several_micro_batches) {
  config::Config config = test::expert_config();
  config.train.gradient_accumulation_steps = 2;
  check("two micro-batches", config, stages({1, 2, 3}));
}

BOOST_AUTO_TEST_CASE(state_parameters_and_activations_elsewhere) {
  const test::TemporaryFolder folder;
  const auto elsewhere = [&](Offload optimizer, Offload parameters, bool activations, int stage) {
    return [&, optimizer, parameters, activations, stage](config::Config& c) {
      c.parallel.zero_stage = stage;
      c.train.offload_folder = folder.path();
      c.train.offload_optimizer = optimizer;
      c.train.offload_parameters = parameters;
      c.train.activation_offload = activations;
    };
  };
  check("elsewhere", test::expert_config(),
        {elsewhere(Offload::nvme, Offload::none, false, 3), elsewhere(Offload::nvme, Offload::none, false, 0),
         elsewhere(Offload::host, Offload::host, false, 3), elsewhere(Offload::none, Offload::none, true, 3),
         elsewhere(Offload::nvme, Offload::host, true, 1)});
}

/// Master weights in files, which float32 has none of: the bits of those in memory.
BOOST_AUTO_TEST_CASE(master_weights_in_files_change_no_bit) {
  const test::TemporaryFolder folder;
  for_each_layout([&](const mesh::Layout& layout) {
    config::Config config = test::expert_config();
    config.train.precision = config::Precision::bf16;
    const StepNumbers in_memory = on_mesh(config, layout);
    config.train.offload_folder = folder.path();
    config.train.offload_optimizer = config.train.offload_parameters = Offload::nvme;
    BOOST_TEST((on_mesh(config, layout) == in_memory), layout.describe());
  });
}

BOOST_AUTO_TEST_CASE(adapters_on_attention_beside_experts_that_rest) {
  config::Config config = test::expert_config();
  config.lora.use_peft = true;
  config.lora.lora_dropout = 0.0;
  check("adapters", config, stages({0, 1, 3}));
  check("adapters, all computed again", config,
        {[](config::Config& c) { c.train.activation_checkpointing = ActivationCheckpointing::full; }});
}

BOOST_AUTO_TEST_CASE(optimizers_of_other_state) {
  const test::TemporaryFolder folder;
  for (const test::ExpertOptimizer& of : test::expert_optimizers) {
    config::Config config = test::expert_config();
    of.set(config);
    std::vector<Change> changes = stages({0, 3});
    changes.emplace_back([&](config::Config& c) {
      c.train.offload_folder = folder.path();
      c.train.offload_optimizer = Offload::nvme;
    });
    check(of.name, config, changes, of.tolerance);
  }
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(expert_stages)

BOOST_AUTO_TEST_CASE(every_stage_with_every_recomputation) { check_stages(true); }

BOOST_AUTO_TEST_SUITE_END()
