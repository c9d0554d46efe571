// SPDX-License-Identifier: Apache-2.0
// Ten steps of a small gpt-oss, with sinks, windows, biases everywhere and gates that are cut off, are those of one
// rank on every kind of mesh: loss, gradient norm and auxiliary loss.

#include <algorithm>
#include <array>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <span>
#include <tuple>
#include <vector>

#include "support/awkward_data.hpp"
#include "support/engine_fixture.hpp"
#include "support/layout.hpp"
#include "support/mpi_session.hpp"
#include "support/temporary_folder.hpp"

BOOST_AUTO_TEST_SUITE(gpt_oss)

namespace {

using namespace sft;
using config::ActivationCheckpointing;
using test::session;

constexpr std::int64_t max_length = 48, global_rows = 8, num_steps = 10;

config::Model small_model() {
  config::Model model = test::small_qwen2();
  model.num_attention_heads = 4;
  model.attention_output_bias = true;
  model.attention_sinks = true;
  model.sliding_window = 7;
  model.layer_types = {"sliding_attention", "full_attention"};
  model.rope_scaling.rope_type = config::RopeType::yarn;
  model.rope_scaling.factor = 8.0;
  model.rope_scaling.original_max_position_embeddings = 16;
  model.rope_scaling.truncate = false;
  model.expert_form = config::ExpertForm::gpt_oss;
  model.num_experts = 8;
  model.num_experts_per_tok = 2;
  model.moe_intermediate_size = 12;  // no vector holds what tp leaves of it
  model.norm_topk_prob = true;
  model.swiglu_limit = 0.3;  // of the small products here many are beyond it
  model.router_aux_loss_coef = 0.05;
  return model;
}

/// What the tokens are, and what is trained of the model.
struct Task {
  bool is_one_token =
      false;              ///< in all places of full rows: one expert gets all, and nothing of it fits into one round
  bool use_peft = false;  ///< adapters of attention alone
  [[nodiscard]] bool operator<(const Task& other) const {
    return std::tie(is_one_token, use_peft) < std::tie(other.is_one_token, other.use_peft);
  }
};

struct Case {
  const char* name;
  mesh::Layout layout;
  std::function<void(config::Config&)> change = [](config::Config&) {};
  Task task = {};
};

/// A change of stage, checkpointing and blocks in a unit.
std::function<void(config::Config&)> with(int stage, ActivationCheckpointing checkpointing, int blocks_per_unit = 1) {
  return [=](config::Config& c) {
    c.parallel.zero_stage = stage;
    c.parallel.blocks_per_unit = blocks_per_unit;
    c.train.activation_checkpointing = checkpointing;
  };
}
void offload(config::Config& c) {
  c.train.activation_offload = true;
  c.train.offload_optimizer = config::Offload::nvme;
}
void keep_tokens_whole(config::Config& c) { c.parallel.tp_sequence_parallel = false; }

constexpr ActivationCheckpointing none = ActivationCheckpointing::none, full = ActivationCheckpointing::full,
                                  selective = ActivationCheckpointing::selective;
constexpr Task peft{.use_peft = true}, one_token{.is_one_token = true};

const std::vector<Case> cases{
    {"all computed again", {}, with(3, full)},
    {"offloaded", {}, offload},
    {"replicas", {{Axis::dp_replicate, 2}}, with(2, none)},
    {"shards", {{Axis::dp_shard, 2}}, with(3, full)},
    {"shards, adapters", {{Axis::dp_shard, 2}}, with(3, full), peft},
    {"sp", {{Axis::sp, 2}}, with(2, selective, 0)},
    {"sp by heads", {{Axis::sp, 2}}, [](config::Config& c) { c.parallel.sp_method = config::SpMethod::ulysses; }},
    {"tp", {{Axis::tp, 2}}, with(3, full)},
    {"tp, whole tokens", {{Axis::tp, 2}}, keep_tokens_whole},
    {"tp, adapters", {{Axis::tp, 2}}, with(1, selective), peft},
    {"ep", {{Axis::ep, 2}}, with(3, none)},
    {"ep, stage 0", {{Axis::ep, 2}}, with(0, full)},
    {"ep, adapters", {{Axis::ep, 2}}, with(3, none), peft},
    {"more ranks of tp than key/value heads", {{Axis::tp, 4}}, with(3, none, 0)},
    {"shards and tp, offloaded", {{Axis::dp_shard, 2}, {Axis::tp, 2}}, offload},
    {"sp and tp", {{Axis::sp, 2}, {Axis::tp, 2}}, with(1, full)},
    {"ring of 4", {{Axis::sp, 4}}, with(3, none)},
    {"ep 4", {{Axis::ep, 4}}, with(3, selective)},
    {"ep 4, one token", {{Axis::ep, 4}}, with(3, none), one_token},
    {"ep 4, one token, all computed again", {{Axis::ep, 4}}, with(2, full), one_token},
    {"ep and tp, one token", {{Axis::ep, 2}, {Axis::tp, 2}}, with(3, none), one_token},
    {"ep and tp", {{Axis::ep, 2}, {Axis::tp, 2}}, with(3, none)},
    {"ep and sp", {{Axis::ep, 2}, {Axis::sp, 2}}, with(1, full)},
    {"shards and ep", {{Axis::dp_shard, 2}, {Axis::ep, 2}}, with(2, none, 2)},
    {"shards, ep and tp", {{Axis::dp_shard, 2}, {Axis::ep, 2}, {Axis::tp, 2}}, with(3, full)},
    {"replicas, ep and sp", {{Axis::dp_replicate, 2}, {Axis::ep, 2}, {Axis::sp, 2}}, with(1, selective)},
    {"shards, sp and tp", {{Axis::dp_shard, 2}, {Axis::sp, 2}, {Axis::tp, 2}}, with(1, full, 2)},
};

std::vector<rows::Row> rows_of_step(const Task& task, std::int64_t step) {
  if (!task.is_one_token) return test::make_awkward_rows(global_rows, max_length, static_cast<std::uint64_t>(step));
  const rows::Row row{std::vector<std::int32_t>(max_length, 7), std::vector<float>(max_length, 1.0F), {max_length}};
  return {global_rows, row};
}

config::Model model_of(const Task& task) {
  config::Model model = small_model();
  if (task.is_one_token) {
    model.num_experts_per_tok = 1;
    model.norm_topk_prob = false;
  }
  return model;
}

/// Loss, gradient norm and auxiliary loss of each step.
std::vector<double> run(const Case& of, const test::Mesh& mesh) {
  const test::TemporaryFolder folder;
  config::Config config;
  config.parallel.tp_sequence_parallel = mesh.place.size(Axis::tp) > 1;
  of.change(config);
  config.model = model_of(of.task);
  config.lora.use_peft = of.task.use_peft;
  config.lora.lora_dropout = 0.0;
  config.train.precision = config::Precision::fp32;
  config.train.offload_folder = folder.path();
  config.train.per_device_train_batch_size = global_rows / mesh.place.data_size();
  // Elements whose gradient is near zero would move by rounding alone: tests/equivalence/trajectory.cpp.
  config.optimizer.adam_epsilon = 1e-6;
  config.optimizer.max_grad_norm = 1.0;
  config.optimizer.weight_decay = 0.1;
  test::EngineFixture fixture(config, max_length, mesh, session());
  fixture.engine().initialize();
  const double learning_rate = of.task.is_one_token ? 1e-4 : 3e-3;  // what is always the same is soon learned
  std::vector<double> numbers;
  for (std::int64_t step = 0; step < num_steps; ++step) {
    const train::StepResult result = fixture.step(rows_of_step(of.task, step), step, learning_rate);
    BOOST_TEST_REQUIRE(result.routers.has_value());
    numbers.insert(numbers.end(), {result.loss, result.grad_norm, result.routers->aux_loss});
  }
  return numbers;
}

constexpr std::array names_of_numbers{"loss", "norm", "auxiliary loss"};
constexpr std::array bounds{1e-5, 1e-4, 1e-5};

/// What one rank alone makes of the same steps, with all activations kept; rank 0 works it out for all.
std::vector<double> baseline(const Task& task) {
  std::vector<double> numbers(names_of_numbers.size() * num_steps);
  if (session().world().rank() == 0) {
    numbers = run({"one rank", {}, with(3, none), task}, test::make_lone_mesh(model_of(task)));
  }
  session().world().sum(std::span<double>(numbers));
  return numbers;
}

double distance(double value, double expected) {
  if (value == expected) return 0.0;
  const double relative = std::abs(value - expected) / std::abs(expected);
  return std::isnan(relative) ? std::numeric_limits<double>::infinity() : relative;
}

}  // namespace

BOOST_AUTO_TEST_CASE(gpt_oss_trains_on_every_mesh_like_on_one_rank) {
  std::map<Task, std::vector<double>> baselines;
  for (const Case& of : cases) {
    if (of.layout.size() != session().world().size()) continue;
    std::vector<double>& expected = baselines[of.task];
    if (expected.empty()) expected = baseline(of.task);
    config::Config config;
    config.parallel.tp_sequence_parallel = of.layout[Axis::tp] > 1;
    of.change(config);
    const test::Mesh mesh(session().world(), of.layout, model_of(of.task), config.parallel);
    const std::vector<double> found = run(of, mesh);
    BOOST_TEST_CONTEXT(of.name) {
      for (std::size_t i = 0; i < found.size(); ++i) {
        const std::size_t number = i % names_of_numbers.size();
        BOOST_TEST(distance(found[i], expected[i]) <= bounds.at(number),
                   names_of_numbers.at(number)
                       << " of step " << i / names_of_numbers.size() << ": " << found[i] << ", not " << expected[i]);
      }
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
