// SPDX-License-Identifier: Apache-2.0
// Keys of [lora] that name what the model does not have.
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include "sft/model/modules.hpp"
#include "unit/config/refused.hpp"

using namespace sft;
using namespace sft::config;

namespace {

/// Names parameters of experts as targets, in a model whose two layers have experts.
void adapt_experts(Config& config, const std::string& target) {
  set_experts(config, 4, 2);
  config.lora.use_peft = true;
  config.lora.lora_dropout = 0.0;
  config.lora.lora_target_parameters = {target};
}

const Refused adapters_that_cannot_be[] = {
    {"`lora.rank_pattern` has q_prj, which no adapter's path ends with (such a path is "
     "model.layers.0.self_attn.q_proj)",
     [](Config& c) {
       c.lora.use_peft = true, c.lora.rank_pattern = {{"q_prj", 4}};
     }},
    {"`lora.alpha_pattern` has (q_proj, which is no regular expression",
     [](Config& c) {
       c.lora.use_peft = true, c.lora.alpha_pattern = {{"(q_proj", 4}};
     }},
    {"`lora.layers_pattern` has nothing to do",
     [](Config& c) { c.lora.use_peft = true, c.lora.layers_pattern = {"layers"}; }},
    {"`lora.layers_pattern = h` leaves no layer to adapt",
     [](Config& c) { c.lora.use_peft = true, c.lora.layers_to_transform = {0}, c.lora.layers_pattern = {"h"}; }},
    {"`lora.modules_to_save` names q_proj",
     [](Config& c) { c.lora.use_peft = true, c.lora.modules_to_save = {"q_proj"}; }},
    {"`lora.modules_to_save` names k_norm",
     [](Config& c) { c.lora.use_peft = true, c.lora.modules_to_save = {"k_norm"}; }},
    {"`lora.modules_to_save` names input_layernorm",
     [](Config& c) {
       c.lora.use_peft = true, c.lora.modules_to_save = {"input_layernorm"}, c.model.block_norms = BlockNorms::olmo2;
     }},
    {"`lora.modules_to_save` names lm_head of a model with tied embeddings",
     [](Config& c) {
       c.lora.use_peft = true, c.lora.modules_to_save = {"lm_head"}, c.model.tie_word_embeddings = true;
     }},
    {"`lora.init_lora_weights = olora` does not go with lora.load_in_4bit",
     [](Config& c) {
       c.lora.use_peft = c.lora.load_in_4bit = true, c.model.model_name_or_path = "m";
       c.lora.init_lora_weights.kind = LoraInit::olora;
     }},
    {"`lora.init_lora_weights = pissa_niter_8` does not go with rank 17 of model.layers.0.self_attn.k_proj (that "
     "weight has 16 singular values",
     [](Config& c) {
       c.lora.use_peft = true, c.lora.lora_r = 17, c.lora.init_lora_weights = {LoraInit::pissa, 8};
       c.lora.lora_target_modules = {"k_proj"};
     }},
    {"`lora.lora_target_parameters` names mlp.experts.down_proj (it is about weights of experts, and this model "
     "has none)",
     [](Config& c) { c.lora.use_peft = true, c.lora.lora_target_parameters = {"mlp.experts.down_proj"}; }},
    {"`lora.lora_target_parameters` names experts.up_proj (weights that can be named are such as "
     "model.layers.0.mlp.experts.gate_up_proj and model.layers.0.mlp.experts.down_proj)",
     [](Config& c) { adapt_experts(c, "experts.up_proj"); }},
    {"`lora.lora_dropout = 0.05` does not go with lora.lora_target_parameters",
     [](Config& c) { adapt_experts(c, "experts.down_proj"), c.lora.lora_dropout = 0.05; }},
    {"`lora.use_dora` does not go with lora.lora_target_parameters",
     [](Config& c) { adapt_experts(c, "experts.down_proj"), c.lora.use_dora = true; }},
    {"`lora.init_lora_weights = pissa` does not go with lora.lora_target_parameters",
     [](Config& c) {
       adapt_experts(c, "down_proj"), c.lora.lora_r = 1, c.lora.init_lora_weights.kind = LoraInit::pissa;
     }},
    {"`lora.rank_pattern` has experts.gate_up_proj, which no adapter's path ends with",
     [](Config& c) {
       adapt_experts(c, "model.layers.1.mlp.experts.down_proj");
       c.lora.rank_pattern = {{"experts.gate_up_proj", 4}};
     }},
    {"`lora.llm_int8_skip_modules` names model.layers.2.mlp (no linear layer",
     [](Config& c) {
       c.lora.use_peft = c.lora.load_in_4bit = true, c.lora.llm_int8_skip_modules = {"lm_head", "model.layers.2.mlp"};
     }},
    {"`lora.llm_int8_skip_modules` names (q_proj (",
     [](Config& c) { c.lora.use_peft = c.lora.load_in_4bit = true, c.lora.llm_int8_skip_modules = {"(q_proj"}; }},
    {"`lora.llm_int8_skip_modules` leaves model.layers.0.mlp.gate_proj out",
     [](Config& c) { c.lora.use_peft = c.lora.load_in_4bit = true, c.lora.llm_int8_skip_modules = {"up_proj"}; }},
    {"`lora.lora_target_modules` names up_proj (this model has it in its experts alone",
     [](Config& c) {
       set_experts(c, 4, 2);
       c.lora.use_peft = true;
       c.lora.lora_target_modules = {"q_proj", "up_proj"};
     }},
    {"`lora.lora_target_modules` names q_prj (adapters are added to the linear layers of a block, which are q_proj, "
     "k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj)",
     [](Config& c) { c.lora.use_peft = true, c.lora.lora_target_modules = {"q_prj"}; }},
};

}  // namespace

BOOST_AUTO_TEST_SUITE(check_modules)

BOOST_DATA_TEST_CASE(what_cannot_run_is_refused, boost::unit_test::data::make(adapters_that_cannot_be), refused) {
  check_refused(refused, model::check_modules);
}

BOOST_AUTO_TEST_SUITE_END()
