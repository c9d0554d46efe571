// SPDX-License-Identifier: Apache-2.0
// adapter_config.json, made and read.

#include "sft/hub/adapter_config.hpp"

#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>
#include <string>

#include "support/error_text.hpp"
#include "unit/hub/hub_fixture.hpp"

using namespace sft;
using test::data_error_of;
using test::mentions;

namespace {

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
  folder.write(hub::make_adapter_config(lora, "org/name"));
  const hub::AdapterConfig read = folder.read();
  const config::Lora& again = read.lora;
  const hub::TargetModules& targets = read.targets;
  BOOST_TEST(again.use_peft);
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
  const auto object = nlohmann::json::parse(hub::make_adapter_config(lora, "org/name"));
  BOOST_TEST(object["peft_type"] == "LORA");
  BOOST_TEST(object["task_type"] == "CAUSAL_LM");
  BOOST_TEST(object["base_model_name_or_path"] == "org/name");
  BOOST_TEST(object["lora_alpha"].is_number_integer());
  BOOST_TEST(object["target_modules"].size() == 7U);
  BOOST_TEST(nlohmann::json::parse(hub::make_adapter_config(lora, ""))["base_model_name_or_path"].is_null());
}

BOOST_AUTO_TEST_CASE(modules_are_matched_as_peft_matches_them) {
  const Folder folder;
  const auto matches = [&](const nlohmann::json& target_modules, const std::string& module) {
    auto object = nlohmann::json::parse(hub::make_adapter_config(some_lora(), ""));
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

BOOST_AUTO_TEST_CASE(what_fused_modules_cannot_say_is_refused) {
  sft::config::Lora lora;
  lora.use_peft = true;
  sft::hub::FileLayout fused;
  fused.family = "phi3";
  sft::hub::check_adapters(lora, fused);
  lora.rank_pattern = {{"q_proj", 5}};
  sft::hub::check_adapters(lora, {});
  BOOST_CHECK_EXCEPTION(sft::hub::check_adapters(lora, fused), sft::Error, [](const sft::Error& error) {
    return error.status() == sft::ExitStatus::configuration && mentions(error.what(), {"lora.rank_pattern", "as one"});
  });
}

BOOST_AUTO_TEST_CASE(other_kinds_of_adapters_are_refused_by_field) {
  const Folder folder;
  const auto refusal = [&](const std::string& name, const nlohmann::json& value) {
    auto object = nlohmann::json::parse(hub::make_adapter_config(some_lora(), ""));
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
