// SPDX-License-Identifier: Apache-2.0
// Experts whose products are in 8-bit floats: one alone is an MLP, many have gradients as far from float32's as the
// formats round, and every mesh has those of one rank.

#include <algorithm>
#include <array>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "experts/expert_runs.hpp"
#include "sft/config/values.hpp"
#include "support/awkward_data.hpp"
#include "support/fp8_step.hpp"
#include "support/mpi_session.hpp"

BOOST_AUTO_TEST_SUITE(expert_fp8)

namespace {

using namespace sft;
using config::Fp8;
using test::session;

constexpr std::array ways{Fp8::tensorwise, Fp8::blockwise};

const std::vector<mesh::Layout> layouts{{{Axis::tp, 2}},
                                        {{Axis::ep, 2}},
                                        {{Axis::sp, 2}},
                                        {{Axis::dp_shard, 2}},
                                        {{Axis::dp_shard, 4}},
                                        {{Axis::dp_shard, 2}, {Axis::tp, 2}},
                                        {{Axis::ep, 2}, {Axis::tp, 2}},
                                        {{Axis::tp, 4}},
                                        {{Axis::sp, 2}, {Axis::ep, 2}}};

/// Experts as Qwen3-MoE has them, or gpt-oss, whose matrices lie the other way round and have biases.
config::Model model_of(bool is_gpt_oss) {
  config::Model model = test::small_expert_model();
  if (!is_gpt_oss) return model;
  model.expert_form = config::ExpertForm::gpt_oss;
  model.swiglu_limit = 0.3;
  return model;
}

test::FirstStep step_of(const config::Model& model, Fp8 fp8, const test::Mesh& mesh,
                        const test::LogicalTensors& parameters = {}) {
  config::Config config;
  config.model = model;
  config.train.fp8 = fp8;
  const auto rows = test::make_awkward_rows(test::expert_global_rows, test::expert_max_length, 0);
  return test::first_step(config, test::expert_max_length, rows, mesh, session(), parameters);
}

/// The names of an MLP in place of those of the only expert.
test::LogicalTensors as_mlp(const test::LogicalTensors& of_expert) {
  test::LogicalTensors tensors;
  const std::string expert = "experts.0.";
  for (const auto& [name, numbers] : of_expert) {
    const std::size_t at = name.find(expert);
    if (name.find("mlp.gate.") != std::string::npos) continue;  // the router
    tensors[at == std::string::npos ? name : name.substr(0, at) + name.substr(at + expert.size())] = numbers;
  }
  return tensors;
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_only_expert_is_an_mlp) {
  if (session().world().size() > 1) return;
  config::Model model = test::small_expert_model();
  model.num_experts = model.num_experts_per_tok = 1;
  model.router_aux_loss_coef = 0.0;
  config::Model dense = test::small_qwen3();  // what small_expert_model() begins with
  dense.intermediate_size = model.moe_intermediate_size;
  config::Config config;
  config.model = model;
  config.train.precision = config::Precision::fp32;
  config.train.per_device_train_batch_size = test::expert_global_rows;
  test::EngineFixture fixture(config, test::expert_max_length, test::make_lone_mesh(model), session());
  fixture.engine().initialize();
  const test::LogicalTensors parameters = fixture.gather_parameters();
  for (const Fp8 fp8 : ways) {
    const test::FirstStep found = step_of(model, fp8, test::make_lone_mesh(model), parameters),
                          expected = step_of(dense, fp8, test::make_lone_mesh(dense), as_mlp(parameters));
    BOOST_TEST_CONTEXT(config::write(fp8)) {
      BOOST_TEST(std::abs(found.loss - expected.loss) <= 1e-6 * expected.loss);
      const double apart = test::distance(as_mlp(found.gradients), expected.gradients);
      BOOST_TEST_MESSAGE("the only expert: " << apart << " from an MLP");
      BOOST_TEST(apart <= test::fp8_mesh_distance);
    }
  }
}

BOOST_AUTO_TEST_CASE(gradients_of_every_mesh_are_those_of_one_rank) {
  const auto is_own = [](const mesh::Layout& layout) { return layout.size() == session().world().size(); };
  if (std::ranges::none_of(layouts, is_own)) return;
  for (const bool is_gpt_oss : {false, true}) {
    const config::Model model = model_of(is_gpt_oss);
    const test::Mesh lone = test::make_lone_mesh(model);
    const test::FirstStep exact = step_of(model, Fp8::none, lone);
    const double expected = test::expected_fp8_distance(model.num_hidden_layers);
    for (const Fp8 fp8 : ways) {
      const test::FirstStep one = step_of(model, fp8, lone);
      const double from_exact = test::distance(one.gradients, exact.gradients);
      BOOST_TEST_CONTEXT(config::write(fp8) << ", gpt-oss " << is_gpt_oss) {
        BOOST_TEST_MESSAGE("from float32 " << from_exact << " of " << expected);
        BOOST_TEST(from_exact <= 1.5 * expected);
        BOOST_TEST(from_exact >= 0.5 * expected);
        for (const mesh::Layout& layout : layouts) {
          if (!is_own(layout)) continue;
          const test::Mesh mesh(session().world(), layout, model);
          const test::FirstStep found = step_of(model, fp8, mesh);
          const double from_one = test::distance(found.gradients, one.gradients);
          BOOST_TEST_MESSAGE(layout.describe() << ": from one rank " << from_one);
          BOOST_TEST(from_one <= test::fp8_mesh_distance, layout.describe() << ": " << from_one);
          BOOST_TEST(std::abs(found.loss - one.loss) <= 1e-6 * one.loss, layout.describe());
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(an_expert_that_all_tokens_of_several_ranks_go_through) {  // more than a rank has
  if (session().world().size() != 2) return;
  for (const bool is_gpt_oss : {false, true}) {
    config::Model model = model_of(is_gpt_oss);
    model.num_experts = model.num_experts_per_tok = 2;
    const test::Mesh lone = test::make_lone_mesh(model), mesh(session().world(), {{Axis::ep, 2}}, model);
    for (const Fp8 fp8 : ways) {
      const double apart = test::distance(step_of(model, fp8, mesh).gradients, step_of(model, fp8, lone).gradients);
      BOOST_TEST(apart <= test::fp8_mesh_distance, config::write(fp8) << ", gpt-oss " << is_gpt_oss << ": " << apart);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
