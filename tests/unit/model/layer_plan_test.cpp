// SPDX-License-Identifier: Apache-2.0
// What layers do, by the configuration of a model.

#include "sft/model/layer_plan.hpp"

#include <boost/test/unit_test.hpp>

#include "sft/model/rope.hpp"

namespace {

using sft::model::LayerPlan;
using sft::sequence::AttentionWindows;

sft::config::Model three_layers() {
  sft::config::Model m;
  m.num_hidden_layers = 3;
  m.head_dim = 8;
  return m;
}

}  // namespace

BOOST_AUTO_TEST_CASE(layers_of_a_llama_are_alike) {
  const auto m = three_layers();
  const std::vector<LayerPlan> plans = sft::model::layer_plans(m);
  BOOST_TEST_REQUIRE(plans.size() == 3U);
  for (const LayerPlan& plan : plans) {
    BOOST_TEST((plan.attention == 0 && plan.rope == 0 && plan.query_rope == 0));
    BOOST_TEST((plan.qk_norm == LayerPlan::QkNorm::none && !plan.changes_branches()));
  }
  BOOST_TEST((sft::model::attention_windows(m) == AttentionWindows{0}));
}

BOOST_AUTO_TEST_CASE(windows_are_numbered_as_they_come) {
  auto m = three_layers();
  m.sliding_window = 5;
  BOOST_TEST((sft::model::attention_windows(m) == AttentionWindows{5}));
  m.layer_types = {"sliding_attention", "full_attention", "sliding_attention"};
  BOOST_TEST((sft::model::attention_windows(m) == AttentionWindows{5, 0}));
  const std::vector<LayerPlan> plans = sft::model::layer_plans(m);
  BOOST_TEST((plans[0].attention == 0 && plans[1].attention == 1 && plans[2].attention == 0));
  m.layer_types = {"full_attention", "full_attention", "full_attention"};
  BOOST_TEST((sft::model::attention_windows(m) == AttentionWindows{0}));
}

BOOST_AUTO_TEST_CASE(layers_without_rotation_have_no_table) {
  auto m = three_layers();
  m.no_rope_layers = {1, 0, 1};
  const std::vector<LayerPlan> plans = sft::model::layer_plans(m);
  BOOST_TEST((plans[0].rope == 0 && !plans[1].rope && plans[2].rope == 0));
}

BOOST_AUTO_TEST_CASE(sliding_layers_may_have_a_table_of_their_own) {
  auto m = three_layers();
  m.sliding_window = 5;
  m.layer_types = {"sliding_attention", "full_attention", "sliding_attention"};
  m.rope_theta = 1e6;
  m.rope_scaling = {.rope_type = sft::config::RopeType::linear, .factor = 8.0};
  m.rope_local_base_freq = 1e4;
  const std::vector<sft::model::Rope> ropes = sft::model::ropes(m);
  BOOST_TEST_REQUIRE(ropes.size() == 2U);
  BOOST_TEST((ropes[0].theta == 1e6 && ropes[0].scaling.factor == 8.0));
  BOOST_TEST((ropes[1].theta == 1e4 && ropes[1].scaling.rope_type == sft::config::RopeType::plain));
  const std::vector<LayerPlan> plans = sft::model::layer_plans(m);
  BOOST_TEST((plans[0].rope == 1 && plans[0].query_rope == 1 && plans[1].rope == 0 && plans[1].query_rope == 0));
}

BOOST_AUTO_TEST_CASE(norms_stand_where_block_norms_says) {
  auto m = three_layers();
  using sft::config::BlockNorms;
  for (const BlockNorms norms : {BlockNorms::pre, BlockNorms::glm4, BlockNorms::olmo2, BlockNorms::gemma2}) {
    m.block_norms = norms;
    const LayerPlan plan = sft::model::layer_plans(m).front();
    BOOST_TEST(plan.norms_inputs == (norms != BlockNorms::olmo2));
    BOOST_TEST(plan.norms_branches == (norms != BlockNorms::pre));
  }
  m.qk_norm = m.qk_norm_all_heads = true;
  BOOST_TEST((sft::model::layer_plans(m).front().qk_norm == LayerPlan::QkNorm::all_heads));
}

BOOST_AUTO_TEST_CASE(queries_that_grow_have_a_table_of_their_own) {
  auto m = three_layers();
  m.llama_4_scaling_beta = 0.1;
  m.partial_rotary_factor = 0.5;
  const std::vector<sft::model::Rope> ropes = sft::model::ropes(m);
  BOOST_TEST_REQUIRE(ropes.size() == 2U);
  BOOST_TEST((ropes[0].query_growth == 0.0 && ropes[1].query_growth == 0.1));
  BOOST_TEST((ropes[0].dims == 4 && ropes[1].dims == 4));
  const LayerPlan plan = sft::model::layer_plans(m).front();
  BOOST_TEST((plan.rope == 0 && plan.query_rope == 1));
}
