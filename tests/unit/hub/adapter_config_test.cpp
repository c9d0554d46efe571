// SPDX-License-Identifier: Apache-2.0
// adapter_config.json, made and read.

#include "sft/hub/adapter_config.hpp"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "support/error_text.hpp"
#include "unit/hub/hub_fixture.hpp"

using namespace sft;
using test::data_error_of;
using test::mentions;

namespace {

const std::vector<std::string> linear_names = {"q_proj",    "k_proj",  "v_proj",   "o_proj",
                                               "gate_proj", "up_proj", "down_proj"};

config::Lora some_lora() {
  config::Lora lora;
  lora.use_peft = true;
  lora.lora_r = 12;
  lora.lora_alpha = 3.5;
  lora.lora_dropout = 0.25;
  lora.use_rslora = true;
  lora.use_dora = true;
  lora.lora_target_modules = {"q_proj", "down_proj"};
  lora.rank_pattern = {{"q_proj", 5}};
  lora.alpha_pattern = {{"layers.1.mlp.*", 2.5}};
  lora.layers_to_transform = {0, 1};
  lora.layers_pattern = {"layers"};
  lora.modules_to_save = {"lm_head", "norm"};
  lora.lora_target_parameters = {"mlp.experts.gate_up_proj", "down_proj"};
  return lora;
}

struct Folder {
  void write(const std::string& text) const { test::write_bytes(folder.file("adapter_config.json"), text); }
  [[nodiscard]] hub::AdapterConfig read() const { return hub::read_adapter_config(folder.file("")); }
  test::TemporaryFolder folder;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(adapter_config)

BOOST_AUTO_TEST_CASE(what_is_made_is_read_again) {
  const Folder folder;
  const config::Lora lora = some_lora();
  folder.write(hub::make_adapter_config(lora, "org/name", linear_names));
  const hub::AdapterConfig read = folder.read();
  const config::Lora& again = read.lora;
  const hub::TargetModules& targets = read.targets;
  BOOST_TEST(again.use_peft);
  BOOST_TEST(again.lora_target_parameters == lora.lora_target_parameters, boost::test_tools::per_element());
  BOOST_TEST(again.lora_r == 12);
  BOOST_TEST(again.lora_alpha == 3.5);
  BOOST_TEST(again.lora_dropout == 0.25);
  BOOST_TEST(again.use_rslora);
  BOOST_TEST(again.use_dora);
  BOOST_TEST(targets.contains("model.layers.0.self_attn.q_proj"));
  BOOST_TEST(targets.contains("model.layers.7.mlp.down_proj"));
  BOOST_TEST(!targets.contains("model.layers.0.self_attn.k_proj"));
  for (const char* module : {"model.layers.0.self_attn.q_proj", "model.layers.1.mlp.down_proj"}) {
    BOOST_TEST(again.size_of(module).rank == lora.size_of(module).rank);
    BOOST_TEST(again.size_of(module).scale == lora.size_of(module).scale);
  }
  BOOST_TEST(again.layers_to_transform == lora.layers_to_transform);
  BOOST_TEST(again.layers_pattern == lora.layers_pattern);
  BOOST_TEST(again.modules_to_save == lora.modules_to_save);
}

BOOST_AUTO_TEST_CASE(it_says_what_peft_reads) {
  config::Lora lora = some_lora();
  lora.lora_alpha = 16.0;
  lora.lora_target_modules = {"all-linear"};
  const auto object = nlohmann::json::parse(hub::make_adapter_config(lora, "org/name", linear_names));
  BOOST_TEST(object["peft_type"] == "LORA");
  BOOST_TEST(object["task_type"] == "CAUSAL_LM");
  BOOST_TEST(object["base_model_name_or_path"] == "org/name");
  BOOST_TEST(object["lora_alpha"].is_number_integer());
  BOOST_TEST(object["target_modules"].size() == 7U);
  BOOST_TEST(
      nlohmann::json::parse(hub::make_adapter_config(lora, "", linear_names))["base_model_name_or_path"].is_null());
}

BOOST_AUTO_TEST_CASE(modules_are_matched_as_peft_matches_them) {
  const Folder folder;
  const auto matches = [&](const nlohmann::json& target_modules, const std::string& module) {
    auto object = nlohmann::json::parse(hub::make_adapter_config(some_lora(), "", linear_names));
    object["target_modules"] = target_modules;
    folder.write(object.dump());
    return folder.read().targets.contains(module);
  };
  const std::string q = "model.layers.1.self_attn.q_proj", up = "model.layers.11.mlp.up_proj";
  // The whole path, or its end behind a dot
  BOOST_TEST(matches({q, up}, q));
  BOOST_TEST(matches({q, up}, up));
  BOOST_TEST(!matches({q}, "model.layers.2.self_attn.q_proj"));
  BOOST_TEST(!matches({q}, "x" + q));
  BOOST_TEST(matches({"self_attn.q_proj"}, q));
  BOOST_TEST(matches({"1.self_attn.q_proj"}, q));
  BOOST_TEST(!matches({"1.mlp.up_proj"}, up));
  BOOST_TEST(!matches({"_proj"}, q));
  BOOST_TEST(matches({"lm_head"}, "lm_head"));
  // A regular expression of the whole path
  BOOST_TEST(matches(R"(.*\.(q|k)_proj)", q));
  BOOST_TEST(!matches(R"((q|k)_proj)", q));
  BOOST_TEST(!matches(R"(.*\.q)", q));
  BOOST_TEST(matches(R"(model\.layers\.(?P<layer>\d+)\..*(?<!gate)_proj)", up));
  BOOST_TEST(!matches("", q));
  for (const char* shorthand : {"all-linear", "ALL-Linear"}) {
    BOOST_TEST(matches(shorthand, q));
    BOOST_TEST(matches(shorthand, up));
    BOOST_TEST(!matches(shorthand, "lm_head"));
  }
  BOOST_TEST(matches(nullptr, q));
  BOOST_TEST(!matches(nullptr, up));
}

/// PEFT's names of the adapters of these modules of the model.
std::vector<std::string> tensors_of(const std::vector<std::string>& modules) {
  std::vector<std::string> tensors;
  for (const std::string& module : modules) {
    for (const char* side : {"A", "B"}) tensors.push_back("base_model.model." + module + ".lora_" + side + ".weight");
  }
  return tensors;
}

BOOST_AUTO_TEST_CASE(adapters_beside_those_of_parts_have_one_rank_and_no_patterns) {
  sft::hub::FileLayout fused;
  fused.family = "phi3";
  sft::config::Lora lora;
  lora.use_peft = lora.use_rslora = true;
  lora.lora_r = 4;
  lora.lora_alpha = 8;
  lora.rank_pattern = {{"k_proj", 6}, {"layers.1.self_attn.o_proj", 3}};
  lora.alpha_pattern = {{"v_proj", 1}};
  std::vector<std::string> modules;
  for (const std::string layer : {"model.layers.0.self_attn.", "model.layers.1.self_attn."}) {
    for (const char* name : {"q_proj", "k_proj", "v_proj", "o_proj"}) modules.push_back(layer + name);
  }
  const auto object =
      nlohmann::json::parse(hub::make_adapter_config(lora, "", linear_names, fused, tensors_of(modules)));
  BOOST_TEST(object["r"] == 4 + 6 + 4);
  BOOST_TEST(object["lora_alpha"] == 8);
  BOOST_TEST(object["use_rslora"] == false);  // scales are in B
  BOOST_TEST(object["rank_pattern"].empty());
  BOOST_TEST(object["alpha_pattern"].empty());

  // No part among the adapters: patterns stay.
  lora.lora_target_modules = {"o_proj", "down_proj"};
  const auto plain =
      nlohmann::json::parse(hub::make_adapter_config(lora, "", linear_names, fused, tensors_of({modules.back()})));
  BOOST_TEST(plain["r"] == 4);
  BOOST_TEST(plain["rank_pattern"].size() == 2U);
  sft::hub::FileLayout renamed;
  renamed.family = "mixtral";
  lora.lora_target_modules = {"all-linear"};
  BOOST_TEST(
      nlohmann::json::parse(hub::make_adapter_config(lora, "", linear_names, renamed, tensors_of(modules)))["r"] == 4);
}

BOOST_AUTO_TEST_CASE(a_tower_among_others_is_named_module_by_module) {
  sft::hub::FileLayout tower;
  tower.family = "mistral3";
  tower.body = "language_model.model.";
  tower.head = "language_model.lm_head";
  BOOST_REQUIRE(tower.is_tower());
  sft::config::Lora lora;
  lora.use_peft = true;
  lora.layers_to_transform = {0, 3};
  lora.lora_target_modules = {"q_proj"};
  lora.rank_pattern = {{"layers.3.*", 2}};
  lora.modules_to_save = {"norm"};
  std::vector<std::string> tensors = tensors_of({"model.layers.0.self_attn.q_proj", "model.layers.3.self_attn.q_proj"});
  tensors.push_back("base_model.model.model.layers.0.input_layernorm.weight");
  tensors.push_back("base_model.model.model.norm.weight");
  const auto object = nlohmann::json::parse(hub::make_adapter_config(lora, "", linear_names, tower, tensors));
  const auto targets = hub::TargetModules::matching(object["target_modules"].get<std::string>());
  BOOST_TEST(targets.contains("model.language_model.layers.3.self_attn.q_proj"));
  BOOST_TEST(!targets.contains("model.language_model.layers.1.self_attn.q_proj"));
  BOOST_TEST(!targets.contains("model.vision_tower.layers.0.self_attn.q_proj"));
  BOOST_TEST(object["layers_to_transform"].is_null());
  BOOST_TEST(object["rank_pattern"]["model.language_model.layers.3.self_attn.q_proj"] == 2);
  BOOST_TEST(object["rank_pattern"]["model.language_model.layers.0.self_attn.q_proj"] == 16);
  const nlohmann::json saved = {"model.language_model.layers.0.input_layernorm", "model.language_model.norm"};
  BOOST_TEST((object["modules_to_save"] == saved));
}

BOOST_AUTO_TEST_CASE(adapters_that_began_with_a_part_of_the_weights_are_plain_ones_of_twice_the_rank) {
  using sft::config::LoraInit;
  sft::config::Lora lora = some_lora();
  lora.rank_pattern = {{"q_proj", 3}};
  lora.alpha_pattern = {{"v_proj", 5}};
  for (const bool use_rslora : {false, true}) {
    for (const LoraInit kind : {LoraInit::pissa, LoraInit::olora}) {
      lora.use_rslora = use_rslora;
      lora.init_lora_weights = {kind, {}};
      const Folder folder;
      folder.write(hub::make_adapter_config(lora, "", linear_names));
      const sft::config::Lora read = folder.read().lora;
      BOOST_TEST((read.init_lora_weights.kind == LoraInit::zero_b));
      for (const std::string module : {"model.layers.0.self_attn.q_proj", "model.layers.0.self_attn.v_proj", "x"}) {
        BOOST_TEST(read.size_of(module).rank == 2 * lora.size_of(module).rank);
        BOOST_TEST(std::abs(read.size_of(module).scale - lora.size_of(module).scale) < 1e-12);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(other_kinds_of_adapters_are_refused_by_field) {
  const Folder folder;
  const auto refusal = [&](const std::string& name, const nlohmann::json& value) {
    auto object = nlohmann::json::parse(hub::make_adapter_config(some_lora(), "", linear_names));
    object[name] = value;
    folder.write(object.dump());
    return data_error_of([&] { static_cast<void>(folder.read()); });
  };
  BOOST_TEST(mentions(refusal("peft_type", "LOHA"), {"peft_type"}));
  BOOST_TEST(mentions(refusal("bias", "all"), {"bias"}));
  BOOST_TEST(mentions(refusal("rank_pattern", {{"q_proj", -3}}), {"rank_pattern", "numbers above 0"}));
  BOOST_TEST(mentions(refusal("rank_pattern", {{"(q_proj", 3}}), {"rank_pattern", "no regular expression"}));
  BOOST_TEST(mentions(refusal("alpha_pattern", {1, 2}), {"alpha_pattern"}));
  BOOST_TEST(mentions(refusal("layers_to_transform", "all"), {"layers_to_transform"}));
  BOOST_TEST(mentions(refusal("init_lora_weights", "pissa"), {"init_lora_weights", "were changed"}));
  BOOST_TEST(mentions(refusal("trainable_token_indices", {1, 2}), {"trainable_token_indices"}));
  BOOST_TEST(mentions(refusal("target_modules", "(q_proj"),
                      {"target_modules", "no regular expression", "unmatched parenthesis"}));
  BOOST_TEST(mentions(refusal("target_modules", {1, 2}), {"target_modules"}));
  BOOST_TEST(mentions(refusal("r", 0), {"r = 0"}));
  BOOST_TEST(mentions(refusal("r", "four"), {"r"}));
}

BOOST_AUTO_TEST_SUITE_END()
