// SPDX-License-Identifier: Apache-2.0
// A model with experts trains on every mesh like on one rank: loss, gradient norm, auxiliary loss and imbalance. So it
// does with activations kept or not, on ranks without a token, and with adapters on its attention.

#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "support/awkward_data.hpp"
#include "support/engine_fixture.hpp"
#include "support/layout.hpp"
#include "support/mpi_session.hpp"
#include "support/temporary_folder.hpp"

BOOST_AUTO_TEST_SUITE(experts)

namespace {

using namespace sft;
using config::ActivationCheckpointing;
using test::session;

constexpr std::int64_t max_length = 48, num_steps = 10, global_rows = 8;
constexpr double learning_rate = 3e-3;

struct Case {
  test::Layout layout;  ///< dp_replicate x dp_shard x sp x tp
  int zero_stage = 3;
  ActivationCheckpointing checkpointing = ActivationCheckpointing::none;
  bool cuts_tokens = true;  ///< over tp
  int blocks_per_unit = 1;
  bool offloads = false;
  bool use_peft = false;
  bool is_glm = false;  ///< sigmoid scores in groups, and an MLP beside the experts
  int mlp_tile_tokens = 0;
};

/// Every axis alone and with others, every stage, units and policy.
const std::vector<Case> cases{
    {{1, 1, 1, 1}, 3, ActivationCheckpointing::full},
    {{1, 1, 1, 1}, 0, ActivationCheckpointing::selective, true, 0},
    {{1, 1, 1, 1}, 3, ActivationCheckpointing::none, true, 1, true},
    {{1, 1, 1, 1}, 3, ActivationCheckpointing::full, true, 1, true, true},
    {{2, 1, 1, 1}, 2},
    {{1, 2, 1, 1}, 3, ActivationCheckpointing::full},
    {{1, 2, 1, 1}, 1, ActivationCheckpointing::none, true, 2},
    {{1, 2, 1, 1}, 3, ActivationCheckpointing::none, true, 1, false, true},
    {{1, 1, 2, 1}, 3, ActivationCheckpointing::selective},
    {{1, 1, 2, 1}, 0, ActivationCheckpointing::full, true, 1, true},
    {{1, 1, 1, 2}, 3, ActivationCheckpointing::none, true},
    {{1, 1, 1, 2}, 3, ActivationCheckpointing::full, false, 0},
    {{1, 1, 1, 2}, 2, ActivationCheckpointing::none, true, 1, false, true},
    {{1, 1, 1, 4}, 3, ActivationCheckpointing::selective, true},
    {{1, 2, 1, 2}, 3, ActivationCheckpointing::full, true, 0},
    {{1, 1, 2, 2}, 1, ActivationCheckpointing::none, false},
    {{2, 1, 2, 1}, 0, ActivationCheckpointing::full},
    {{1, 1, 4, 1}, 3, ActivationCheckpointing::none, true, 2, true},
    {{1, 4, 1, 1}, 3, ActivationCheckpointing::full, true, 2},
    {{2, 2, 1, 2}, 3, ActivationCheckpointing::selective, true},
    {{1, 2, 2, 2}, 3, ActivationCheckpointing::full, true, 0},
    {{1, 2, 4, 1}, 2, ActivationCheckpointing::none},
    {{1, 1, 1, 1}, 3, ActivationCheckpointing::full, true, 1, false, false, true},
    {{1, 1, 1, 1}, 3, ActivationCheckpointing::selective, true, 0, true, true, true},
    {{1, 2, 1, 1}, 3, ActivationCheckpointing::full, true, 0, false, false, true},
    {{1, 2, 1, 1}, 1, ActivationCheckpointing::none, true, 1, false, true, true},
    {{1, 1, 2, 1}, 0, ActivationCheckpointing::none, true, 1, true, false, true},
    {{1, 1, 1, 2}, 3, ActivationCheckpointing::full, true, 1, false, true, true},
    {{1, 1, 2, 2}, 2, ActivationCheckpointing::selective, false, 1, false, false, true},
    {{1, 2, 1, 2}, 3, ActivationCheckpointing::none, true, 2, false, false, true},
    {{1, 2, 2, 2}, 3, ActivationCheckpointing::full, true, 1, false, false, true},
    {{1, 1, 1, 1}, 3, ActivationCheckpointing::full, true, 1, false, false, false, 7},
    {{1, 1, 1, 1}, 3, ActivationCheckpointing::none, true, 1, true, true, true, 7},
    {{1, 2, 1, 1}, 3, ActivationCheckpointing::full, true, 1, true, true, true, 5},
    {{1, 1, 1, 2}, 3, ActivationCheckpointing::none, true, 1, false, false, true, 7},
    {{1, 1, 2, 1}, 0, ActivationCheckpointing::selective, true, 1, false, false, false, 7},
    {{1, 2, 1, 2}, 2, ActivationCheckpointing::full, false, 1, false, false, true, 11},
};

/// Experts on the first and the last of three layers; tp cuts them into columns that no vector holds.
config::Model small_model() {
  config::Model model = test::small_qwen3();
  model.num_experts = 6;
  model.num_experts_per_tok = 2;
  model.moe_intermediate_size = 12;
  model.norm_topk_prob = true;
  model.mlp_only_layers = {1};
  model.router_aux_loss_coef = 0.05;
  return model;
}

/// The same as GLM-4.5 has it; the MLP beside the experts is wider than that of the dense layer.
config::Model small_glm() {
  config::Model model = small_model();
  model.mlp_only_layers = {0};
  model.router_aux_loss_coef = 0.0;
  model.scoring_func = config::ScoringFunc::sigmoid;
  model.n_group = 3;
  model.topk_group = 2;
  model.routed_scaling_factor = 2.5;
  model.n_shared_experts = 8;
  model.partial_rotary_factor = 0.5;
  return model;
}

config::Model model_of(const Case& c) { return c.is_glm ? small_glm() : small_model(); }

config::Parallel parallel_of(const Case& c, int tp_size) {
  config::Parallel parallel;
  parallel.zero_stage = c.zero_stage;
  parallel.blocks_per_unit = c.blocks_per_unit;
  parallel.tp_sequence_parallel = c.cuts_tokens && tp_size > 1;
  return parallel;
}

std::vector<train::StepResult> run(const Case& c, const test::Mesh& mesh) {
  const test::TemporaryFolder folder;
  config::Config config;
  config.model = model_of(c);
  config.lora.use_peft = c.use_peft;
  config.lora.lora_dropout = 0.0;
  config.parallel = parallel_of(c, mesh.place.size(Axis::tp));
  config.train.precision = config::Precision::fp32;
  config.train.activation_checkpointing = c.checkpointing;
  config.train.activation_offload = c.offloads;
  config.train.mlp_tile_tokens = c.mlp_tile_tokens;
  config.train.offload_folder = folder.path();
  config.train.per_device_train_batch_size = global_rows / mesh.place.data_size();
  config.optimizer.max_grad_norm = 1.0;
  test::EngineFixture fixture(config, max_length, mesh, session());
  fixture.engine().initialize();
  std::vector<train::StepResult> results;
  for (std::int64_t step = 0; step < num_steps; ++step) {
    const auto rows = test::make_awkward_rows(global_rows, max_length, static_cast<std::uint64_t>(step));
    results.push_back(fixture.step(rows, step, learning_rate));
  }
  return results;
}

constexpr std::size_t numbers_of_step = 4;

/// What one rank alone makes of the same steps, all activations kept; rank 0 works it out for all.
std::vector<double> baseline(bool use_peft, bool is_glm) {
  std::vector<double> numbers(numbers_of_step * num_steps);
  if (session().world().rank() == 0) {
    Case alone{.layout = {1, 1, 1, 1}};
    alone.use_peft = use_peft;
    alone.is_glm = is_glm;
    const std::vector<train::StepResult> results = run(alone, test::make_lone_mesh(model_of(alone)));
    for (std::size_t i = 0; i < results.size(); ++i) {
      const std::array values{results[i].loss, results[i].grad_norm, results[i].routers->aux_loss,
                              results[i].routers->expert_imbalance};
      std::ranges::copy(values, numbers.begin() + numbers_of_step * i);
    }
  }
  session().world().sum(std::span<double>(numbers));
  return numbers;
}

double distance(double value, double expected) {
  const double relative = std::abs(value - expected) / std::max(std::abs(expected), 1e-12);
  return std::isnan(relative) ? std::numeric_limits<double>::infinity() : relative;
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_mesh_trains_like_one_rank) {
  std::array<std::vector<double>, 4> baselines;
  for (const Case& c : cases) {
    if (c.layout.size() != session().world().size()) continue;
    std::vector<double>& expected = baselines.at((c.use_peft ? 1 : 0) + (c.is_glm ? 2 : 0));
    if (expected.empty()) expected = baseline(c.use_peft, c.is_glm);
    const mesh::Layout layout = c.layout;
    const test::Mesh mesh(session().world(), layout, model_of(c), parallel_of(c, layout[Axis::tp]));
    const std::vector<train::StepResult> results = run(c, mesh);
    BOOST_TEST_CONTEXT(c.layout.describe() << ", stage " << c.zero_stage << ", checkpointing "
                                           << static_cast<int>(c.checkpointing) << ", offloads " << c.offloads) {
      for (std::size_t i = 0; i < results.size(); ++i) {
        BOOST_TEST_REQUIRE(results[i].routers.has_value());
        const auto check = [&](const char* what, double value, std::size_t number, double tolerance) {
          const double wanted = expected[numbers_of_step * i + number];
          BOOST_TEST(distance(value, wanted) <= tolerance,
                     what << " of step " << i << ": " << value << ", not " << wanted);
        };
        check("loss", results[i].loss, 0, 1e-5);
        check("norm", results[i].grad_norm, 1, 1e-4);
        check("auxiliary loss", results[i].routers->aux_loss, 2, 1e-5);
        check("imbalance", results[i].routers->expert_imbalance, 3, 1e-9);
      }
    }
  }
}

/// Rows of one token each: ranks of sp hold padding alone, and most experts get none of the few tokens.
BOOST_AUTO_TEST_CASE(documents_of_one_token) {
  const auto step_of = [](const test::Mesh& mesh) {
    config::Config config;
    config.model = small_model();
    config.train.precision = config::Precision::fp32;
    config.train.per_device_train_batch_size = global_rows / mesh.place.data_size();
    test::EngineFixture fixture(config, max_length, mesh, session());
    fixture.engine().initialize();
    std::vector<rows::Row> rows(global_rows);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      rows[i] = {std::vector<std::int32_t>(max_length), std::vector<float>(max_length), {1}};
      if (i == 0) rows[i].document_lengths = {2};
      rows[i].tokens[0] = 3;
      rows[i].loss_weight[1] = 1.0F;
    }
    const train::StepResult result = fixture.step(rows, 0, learning_rate);
    return std::array{result.loss, result.grad_norm, result.routers->aux_loss};
  };
  std::array<double, 3> expected{};
  if (session().world().rank() == 0) expected = step_of(test::make_lone_mesh(small_model()));
  session().world().sum(std::span<double>(expected));
  for (const test::Layout& layout : {test::Layout{1, 2, 1, 1}, {1, 1, 2, 1}, {1, 1, 4, 1}, {1, 2, 2, 2}}) {
    if (layout.size() != session().world().size()) continue;
    const auto found = step_of(test::Mesh(session().world(), layout, small_model()));
    BOOST_TEST_CONTEXT(layout.describe()) {
      for (std::size_t i = 0; i < found.size(); ++i) BOOST_TEST(distance(found.at(i), expected.at(i)) <= 1e-5);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
