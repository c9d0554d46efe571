// SPDX-License-Identifier: Apache-2.0
// Models that cannot be.
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include "unit/config/refused.hpp"

using namespace sft;
using namespace sft::config;

namespace {

void set_sigmoid_experts(Config& config, std::int64_t num_experts, std::int64_t choices) {
  set_experts(config, num_experts, choices);
  config.model.scoring_func = ScoringFunc::sigmoid;
  config.model.router_aux_loss_coef = 0.0;
}

const Refused models_that_cannot_be[] = {
    {"`model.sliding_window = -1`", [](Config& c) { c.model.sliding_window = -1; }},
    {"`model.max_position_embeddings = -1`", [](Config& c) { c.model.max_position_embeddings = -1; }},
    {"`model.hidden_size` is not set", [](Config& c) { c.model.hidden_size = 0; }},
    {"no model is given", [](Config& c) { c.model = {}; }},
    {"`model.num_hidden_layers = -1`", [](Config& c) { c.model.num_hidden_layers = -1; }},
    {"`model.num_attention_heads` is not set", [](Config& c) { c.model.num_attention_heads = 0; }},
    {"`model.num_key_value_heads = -2`", [](Config& c) { c.model.num_key_value_heads = -2; }},
    {"`model.intermediate_size` is not set", [](Config& c) { c.model.intermediate_size = 0; }},
    {"`model.vocab_size` is not set", [](Config& c) { c.model.vocab_size = 0; }},
    {"`model.rope_theta = 0`", [](Config& c) { c.model.rope_theta = 0; }},
    {"`model.rms_norm_eps = 0`", [](Config& c) { c.model.rms_norm_eps = 0; }},
    {"hidden_size / num_attention_heads = 60 / 8 is no whole number", [](Config& c) { c.model.hidden_size = 60; }},
    {"num_attention_heads = 8 is no multiple of num_key_value_heads = 3",
     [](Config& c) { c.model.num_key_value_heads = 3; }},
    {"num_attention_heads x head_dim = 4096 x 128 = 524288, above 262144",
     [](Config& c) { c.model.num_attention_heads = 4096, c.model.num_key_value_heads = 8, c.model.head_dim = 128; }},
    {"[model] has keys of experts and no experts", [](Config& c) { c.model.norm_topk_prob = true; }},
    {"[model] has keys of experts and no experts", [](Config& c) { c.model.router_aux_loss_coef = 0.01; }},
    {"`model.num_experts_per_tok` is not set", [](Config& c) { c.model.num_experts = 4; }},
    {"`model.num_experts_per_tok = 5` is out of range (it must be from 1 to 4)",
     [](Config& c) { set_experts(c, 4, 5); }},
    {"`model.mlp_only_layers` names a layer that is not there (there are 2 layers, counted from 0)",
     [](Config& c) {
       set_experts(c, 4, 2);
       c.model.mlp_only_layers = {2};
     }},
    {"`model.mlp_only_layers` leaves no layer with experts",
     [](Config& c) {
       set_experts(c, 4, 2);
       c.model.mlp_only_layers = {0, 1};
     }},
    {"[model] has keys of routers and no experts", [](Config& c) { c.model.n_shared_experts = 1; }},
    {"`model.n_group = 2` does not go with scoring_func = softmax",
     [](Config& c) { set_experts(c, 4, 2), c.model.n_group = 2; }},
    {"`model.n_group = 4` does not fit the experts",
     [](Config& c) { set_sigmoid_experts(c, 4, 2), c.model.n_group = 4; }},
    {"`model.topk_group = 1` does not fit n_group = 2 (there are 2 groups of 2 experts, and a token goes through 3)",
     [](Config& c) { set_sigmoid_experts(c, 4, 3), c.model.n_group = 2; }},
    {"`model.routed_scaling_factor = 0` is out of range (it must be above 0)",
     [](Config& c) { set_sigmoid_experts(c, 4, 3), c.model.routed_scaling_factor = 0; }},
    {"`model.n_shared_experts = 100000` is out of range",
     [](Config& c) { set_sigmoid_experts(c, 4, 3), c.model.n_shared_experts = 100000; }},
    {"`model.scoring_func = sigmoid` does not go with an auxiliary loss (router_aux_loss_coef = 0.001",
     [](Config& c) { set_experts(c, 4, 2), c.model.scoring_func = ScoringFunc::sigmoid; }},
    {"`model.gated_mlp = false` does not go with num_experts",
     [](Config& c) {
       set_experts(c, 4, 2);
       c.model.gated_mlp = false;
     }},
    {"`model.mlp_bias` does not go with num_experts",
     [](Config& c) {
       set_experts(c, 4, 2);
       c.model.mlp_bias = true;
     }},
    {"model.moe_intermediate_size cannot be split over the TP ranks",
     [](Config& c) {
       set_experts(c, 4, 2);
       c.model.moe_intermediate_size = 3;
       set_mesh(c, 1, 1, 1, 2);
     },
     2},
    {"`model.no_rope_layers` has 1 item (there are 2 layers): give 1, or 0",
     [](Config& c) { c.model.no_rope_layers = {1}; }},
    {"`model.no_rope_layers` has other items than 0 and 1",
     [](Config& c) {
       c.model.no_rope_layers = {1, 2};
     }},
    {"`model.qk_norm_after_rope` is for norms of each head (qk_norm = false)",
     [](Config& c) { c.model.qk_norm_after_rope = true; }},
    {"`model.qk_norm_after_rope` is for norms of each head (qk_norm_all_heads = true)",
     [](Config& c) { c.model.qk_norm = c.model.qk_norm_all_heads = c.model.qk_norm_after_rope = true; }},
    {"`model.layer_types` has 3 items (there are 2 layers)",
     [](Config& c) {
       c.model.layer_types = {"full_attention", "full_attention", "full_attention"};
     }},
    {"`model.layer_types` has linear_attention",
     [](Config& c) {
       c.model.layer_types = {"full_attention", "linear_attention"};
     }},
    {"`model.layer_types` has sliding_attention without a window",
     [](Config& c) {
       c.model.layer_types = {"full_attention", "sliding_attention"};
     }},
    {"`model.partial_rotary_factor = 0.4` rotates 3 of 8 dims", [](Config& c) { c.model.partial_rotary_factor = 0.4; }},
    {"`model.partial_rotary_factor = 1.25` rotates 10 of 8 dims",
     [](Config& c) { c.model.partial_rotary_factor = 1.25; }},
    {"`model.rope_scaling` has 3 numbers in short_factor (8 dims of a head are rotated in pairs): give 4",
     [](Config& c) {
       c.model.rope_scaling = {.rope_type = RopeType::longrope, .short_factor = {1, 2, 3}};
     }},
    {"`model.llama_4_scaling_beta` has no length", [](Config& c) { c.model.llama_4_scaling_beta = 0.1; }},
    {"`model.residual_multiplier` does not go with block_norms",
     [](Config& c) { c.model.block_norms = BlockNorms::glm4, c.model.residual_multiplier = 0.5; }},
    {"`model.llama_4_scaling_beta = -1`", [](Config& c) { c.model.llama_4_scaling_beta = -1; }},
    {"`model.embedding_multiplier = 0`", [](Config& c) { c.model.embedding_multiplier = 0; }},
    {"`model.attention_multiplier = -1`", [](Config& c) { c.model.attention_multiplier = -1; }},
    {"`model.attn_logit_softcapping = -1`", [](Config& c) { c.model.attn_logit_softcapping = -1; }},
    {"`model.residual_multiplier = 0`", [](Config& c) { c.model.residual_multiplier = 0; }},
    {"`model.logits_scaling = 0`", [](Config& c) { c.model.logits_scaling = 0; }},
    {"head_dim = 7 is odd", [](Config& c) { c.model.head_dim = 7; }},
    {"`model.head_dim = 512` is out of range", [](Config& c) { c.model.head_dim = 512; }},
};

}  // namespace

BOOST_AUTO_TEST_SUITE(refused_models)

BOOST_DATA_TEST_CASE(what_cannot_run_is_refused, boost::unit_test::data::make(models_that_cannot_be), refused) {
  check_refused(refused);
}

BOOST_AUTO_TEST_SUITE_END()
