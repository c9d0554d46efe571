// SPDX-License-Identifier: Apache-2.0
// Ten steps of a model with experts are those of one rank when ranks share the experts, with every stage, with tp and
// sp, with recomputation, and where some experts get all tokens.

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <vector>

#include "support/awkward_data.hpp"
#include "support/engine_fixture.hpp"
#include "support/layout.hpp"
#include "support/mpi_session.hpp"

BOOST_AUTO_TEST_SUITE(expert_parallel)

namespace {

using namespace sft;
using test::session;

constexpr std::int64_t max_length = 48, global_rows = 8, num_steps = 10;

config::Model small_model() {
  config::Model model = test::small_qwen3();
  model.num_experts = 8;
  model.num_experts_per_tok = 2;
  model.moe_intermediate_size = 16;
  model.norm_topk_prob = true;
  model.router_aux_loss_coef = 0.01;
  return model;
}

struct Case {
  const char* name;
  mesh::Layout layout;
  std::function<void(config::Config&)> change = [](config::Config&) {};
};

void set_stage(config::Config& config, int stage) { config.parallel.zero_stage = stage; }

const std::vector<Case> cases{
    {"ep 2", {{Axis::ep, 2}}},
    {"ep 2, stage 0", {{Axis::ep, 2}}, [](config::Config& c) { set_stage(c, 0); }},
    {"ep 2, all computed again",
     {{Axis::ep, 2}},
     [](config::Config& c) { c.train.activation_checkpointing = config::ActivationCheckpointing::full; }},
    {"ep 4", {{Axis::ep, 4}}},
    {"shards and ep", {{Axis::dp_shard, 2}, {Axis::ep, 2}}},
    {"shards and ep, stage 1", {{Axis::dp_shard, 2}, {Axis::ep, 2}}, [](config::Config& c) { set_stage(c, 1); }},
    {"shards and ep, stage 2", {{Axis::dp_shard, 2}, {Axis::ep, 2}}, [](config::Config& c) { set_stage(c, 2); }},
    {"replicas and ep", {{Axis::dp_replicate, 2}, {Axis::ep, 2}}},
    {"ep and sp", {{Axis::ep, 2}, {Axis::sp, 2}}},
    {"ep and tp",
     {{Axis::ep, 2}, {Axis::tp, 2}},
     [](config::Config& c) { c.train.activation_checkpointing = config::ActivationCheckpointing::selective; }},
    {"shards, ep and tp", {{Axis::dp_shard, 2}, {Axis::ep, 2}, {Axis::tp, 2}}},
    {"neighbours keep units",
     {{Axis::dp_shard, 4}, {Axis::ep, 2}},
     [](config::Config& c) {
       c.parallel.reshard_after_forward = config::Reshard::to_groups;
       c.parallel.reshard_size = 2;
     }},
    {"ep, sp and tp, never resharded",
     {{Axis::ep, 2}, {Axis::sp, 2}, {Axis::tp, 2}},
     [](config::Config& c) { c.parallel.reshard_after_forward = config::Reshard::never; }},
};

/// What the tokens are.
enum class Tokens {
  mixed,   ///< rows of all kinds
  equal,   ///< one token in all places of full rows, which goes through one expert: all others get none
  of_glm,  ///< as mixed, of a model with sigmoid scores, groups of experts and an MLP beside them
};

std::vector<rows::Row> rows_of_step(Tokens tokens, std::int64_t step) {
  if (tokens != Tokens::equal) {
    return test::make_awkward_rows(global_rows, max_length, static_cast<std::uint64_t>(step));
  }
  const rows::Row row{std::vector<std::int32_t>(max_length, 7), std::vector<float>(max_length, 1.0F), {max_length}};
  return {global_rows, row};
}

/// Loss and gradient norm of each step.
std::vector<double> train(const Case& of, const test::Mesh& mesh, Tokens tokens) {
  config::Config config;
  of.change(config);
  config.model = small_model();
  double learning_rate = 3e-3;
  if (tokens == Tokens::equal) {
    config.model.num_experts_per_tok = 1;
    config.model.norm_topk_prob = false;
    learning_rate = 1e-4;  // what is always the same is soon learned
  }
  if (tokens == Tokens::of_glm) {
    config.model.scoring_func = config::ScoringFunc::sigmoid;
    config.model.router_aux_loss_coef = 0.0;
    config.model.n_group = 4;
    config.model.topk_group = 2;
    config.model.routed_scaling_factor = 2.5;
    config.model.n_shared_experts = 2;
    config.model.mlp_only_layers = {0};
  }
  config.train.precision = config::Precision::fp32;
  config.train.per_device_train_batch_size = global_rows / mesh.place.data_size();
  // Elements whose gradient is near zero would move by rounding alone: tests/equivalence/trajectory.cpp.
  config.optimizer.adam_epsilon = 1e-6;
  config.optimizer.max_grad_norm = 1.0;
  test::EngineFixture fixture(config, max_length, mesh, session());
  fixture.engine().initialize();
  std::vector<double> numbers;
  for (std::int64_t step = 0; step < num_steps; ++step) {
    const train::StepResult result = fixture.step(rows_of_step(tokens, step), step, learning_rate);
    numbers.insert(numbers.end(), {result.loss, result.grad_norm});
  }
  return numbers;
}

/// What one rank alone makes of the same steps; rank 0 works it out for all.
std::vector<double> baseline(Tokens tokens) {
  std::vector<double> numbers(2 * num_steps);
  if (session().world().rank() == 0) {
    numbers = train({"one rank", {}}, test::make_lone_mesh(small_model()), tokens);
  }
  session().world().sum(std::span<double>(numbers));
  return numbers;
}

double distance(double value, double expected) {
  if (value == expected) return 0.0;
  const double relative = std::abs(value - expected) / std::abs(expected);
  return std::isnan(relative) ? std::numeric_limits<double>::infinity() : relative;
}

void check_cases(Tokens tokens) {
  const std::vector<double> expected = baseline(tokens);
  for (const Case& of : cases) {
    if (of.layout.size() != session().world().size()) continue;
    config::Config config;
    of.change(config);
    const test::Mesh mesh(session().world(), of.layout, small_model(), config.parallel);
    const std::vector<double> found = train(of, mesh, tokens);
    BOOST_TEST_CONTEXT(of.name) {
      for (std::size_t i = 0; i < found.size(); i += 2) {
        BOOST_TEST(distance(found[i], expected[i]) <= 1e-5, "loss of step " << i / 2);
        BOOST_TEST(distance(found[i + 1], expected[i + 1]) <= 1e-4, "norm of step " << i / 2);
      }
    }
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(ranks_that_share_experts_train_like_one) { check_cases(Tokens::mixed); }

BOOST_AUTO_TEST_CASE(so_do_those_of_glm) { check_cases(Tokens::of_glm); }

/// What goes to the one expert comes in several rounds where ep has four ranks.
BOOST_AUTO_TEST_CASE(so_do_those_whose_experts_get_all_tokens_or_none) { check_cases(Tokens::equal); }

BOOST_AUTO_TEST_SUITE_END()
