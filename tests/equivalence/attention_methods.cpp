// SPDX-License-Identifier: Apache-2.0
// Ten training steps by every way of attending over the sequence, with fewer key/value heads than ranks too, are those
// of one rank, in bf16 with the same bits every time. More meshes are in splits.cpp.

#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "support/awkward_data.hpp"
#include "support/engine_fixture.hpp"
#include "support/layout.hpp"
#include "support/mpi_session.hpp"

BOOST_AUTO_TEST_SUITE(attention_methods)

namespace {

using namespace sft;
using config::SpMethod;
using test::session;

constexpr std::int64_t max_length = 96, num_steps = 10, global_rows = 4;
constexpr double learning_rate = 3e-3;

struct Case {
  test::Layout layout;  ///< dp_replicate x dp_shard x sp x tp
  std::int64_t q_heads, kv_heads;
  SpMethod method;
  int ulysses_size = 0;
  std::int64_t window = 0;          ///< of the first layer; 0: none
  bool has_changed_scores = false;  ///< a softcap, and sinks
};

/// Every method alone, with odd sizes, with each other axis, and with fewer key/value heads than ranks that exchange
/// heads: one, and a number that divides neither the heads nor the ranks. Windows of one token, shorter and longer than
/// chunks, beside a layer without.
const std::vector<Case> cases{
    {{1, 1, 2, 1}, 4, 2, SpMethod::all_gather},
    {{1, 1, 2, 1}, 4, 2, SpMethod::ulysses},
    {{1, 1, 2, 1}, 6, 1, SpMethod::ulysses},
    {{1, 1, 3, 1}, 6, 3, SpMethod::all_gather},
    {{1, 1, 3, 1}, 6, 2, SpMethod::ulysses},
    {{1, 1, 4, 1}, 4, 4, SpMethod::all_gather},
    {{1, 1, 4, 1}, 4, 1, SpMethod::ulysses},
    {{1, 1, 4, 1}, 6, 2, SpMethod::hybrid, 2},
    {{1, 1, 2, 2}, 8, 2, SpMethod::ulysses},
    {{1, 1, 6, 1}, 6, 2, SpMethod::hybrid, 3},
    {{1, 1, 6, 1}, 12, 4, SpMethod::ulysses},
    {{1, 1, 4, 2}, 4, 1, SpMethod::hybrid, 2},
    {{2, 1, 4, 1}, 4, 2, SpMethod::ulysses},
    {{1, 1, 8, 2}, 8, 2, SpMethod::hybrid, 4},
    {{1, 2, 4, 2}, 8, 4, SpMethod::all_gather},
    {{1, 1, 2, 1}, 4, 2, SpMethod::ring, 0, 5},
    {{1, 1, 2, 1}, 4, 2, SpMethod::ulysses, 0, 40},
    {{1, 1, 4, 1}, 4, 2, SpMethod::ring, 0, 7},
    {{1, 1, 4, 1}, 4, 4, SpMethod::all_gather, 0, 1},
    {{1, 1, 2, 2}, 8, 2, SpMethod::all_gather, 0, 30},
    {{1, 1, 4, 1}, 6, 2, SpMethod::hybrid, 2, 20},
    {{1, 2, 4, 1}, 4, 2, SpMethod::ring, 0, 3},
    {{2, 1, 4, 1}, 4, 2, SpMethod::all_gather, 0, 13},
    {{1, 1, 2, 2}, 8, 2, SpMethod::ring, 0, 7, true},
    {{1, 2, 2, 1}, 4, 2, SpMethod::ulysses, 0, 7, true},
    {{1, 1, 4, 1}, 4, 4, SpMethod::all_gather, 0, 40, true},
    {{1, 1, 4, 1}, 6, 2, SpMethod::hybrid, 2, 3, true},
    {{1, 2, 1, 2}, 4, 1, SpMethod::ring, 0, 5, true},
};

struct Step {
  double loss, grad_norm;

  bool operator==(const Step&) const = default;
};

config::Model model_of(const Case& c) {
  config::Model model = test::small_qwen2();
  model.num_attention_heads = c.q_heads;
  model.num_key_value_heads = c.kv_heads;
  model.head_dim = 8;
  if (c.has_changed_scores) {
    model.attn_logit_softcapping = 0.5;
    model.attention_sinks = true;
  }
  if (c.window > 0) {
    model.sliding_window = c.window;
    model.layer_types.assign(static_cast<std::size_t>(model.num_hidden_layers), "full_attention");
    model.layer_types.front() = "sliding_attention";
  }
  return model;
}

std::vector<Step> run(const Case& c, const test::Mesh& mesh, config::Precision precision) {
  config::Config config;
  config.model = model_of(c);
  if (mesh.place.size(Axis::sp) > 1) {
    config.parallel.sp_method = c.method;
    config.parallel.ulysses_size = c.ulysses_size;
  }
  config.train.precision = precision;
  config.train.per_device_train_batch_size = global_rows / mesh.place.data_size();
  config.optimizer.max_grad_norm = 1.0;
  test::EngineFixture fixture(config, max_length, mesh, session());
  fixture.engine().initialize();
  std::vector<Step> steps;
  for (std::int64_t step = 0; step < num_steps; ++step) {
    const auto rows = test::make_awkward_rows(global_rows, max_length, static_cast<std::uint64_t>(step));
    const train::StepResult result = fixture.step(rows, step, learning_rate);
    steps.push_back({result.loss, result.grad_norm});
  }
  return steps;
}

/// What one rank alone makes of the same steps; rank 0 works it out for all.
std::vector<Step> baseline(const Case& c) {
  std::array<double, 2 * num_steps> numbers{};
  if (session().world().rank() == 0) {
    const std::vector<Step> steps = run(c, test::make_lone_mesh(model_of(c)), config::Precision::fp32);
    for (std::size_t i = 0; i < steps.size(); ++i) {
      numbers[2 * i] = steps[i].loss;
      numbers[2 * i + 1] = steps[i].grad_norm;
    }
  }
  session().world().sum(std::span<double>(numbers));
  std::vector<Step> steps;
  for (std::size_t i = 0; i < numbers.size(); i += 2) steps.push_back({numbers[i], numbers[i + 1]});
  return steps;
}

double relative(double value, double expected) {
  const double distance = std::abs(value - expected) / std::abs(expected);
  return std::isnan(distance) ? std::numeric_limits<double>::infinity() : distance;
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_method_trains_like_one_rank) {
  for (const Case& c : cases) {
    if (c.layout.size() != session().world().size()) continue;
    const test::Mesh mesh(session().world(), c.layout, model_of(c));
    const std::vector<Step> expected = baseline(c), steps = run(c, mesh, config::Precision::fp32);
    BOOST_TEST_CONTEXT(c.layout.describe() << ", method " << static_cast<int>(c.method) << ", heads " << c.q_heads
                                           << "/" << c.kv_heads << ", window " << c.window) {
      for (std::size_t i = 0; i < steps.size(); ++i) {
        BOOST_TEST(relative(steps[i].loss, expected[i].loss) <= 1e-5, "loss of step " << i);
        BOOST_TEST(relative(steps[i].grad_norm, expected[i].grad_norm) <= 1e-4, "norm of step " << i);
      }
      const std::vector<Step> low = run(c, mesh, config::Precision::bf16);
      BOOST_TEST(relative(low.back().loss, expected.back().loss) <= 0.05);
      BOOST_TEST((run(c, mesh, config::Precision::bf16) == low));
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
