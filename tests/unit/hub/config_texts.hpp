// SPDX-License-Identifier: Apache-2.0
#pragma once
// Texts of config.json for the tests of hub::parse_model_config and hub::make_config_json.

#include <nlohmann/json.hpp>
#include <string>

#include "sft/config/parse.hpp"
#include "sft/hub/model_config.hpp"
#include "support/error_text.hpp"

namespace sft::test {

/// The fields that every family needs, with `more` over them.
inline nlohmann::json config_of(const std::string& architecture,
                                const nlohmann::json& more = nlohmann::json::object()) {
  nlohmann::json object = {{"architectures", {architecture}}, {"hidden_size", 64},        {"intermediate_size", 96},
                           {"num_hidden_layers", 3},          {"num_attention_heads", 8}, {"vocab_size", 101}};
  object.update(more);
  return object;
}

inline hub::ModelConfig read(const nlohmann::json& object) {
  return hub::parse_model_config(object.dump(), "x/config.json");
}

inline std::string refusal(const nlohmann::json& more, const std::string& architecture = "LlamaForCausalLM") {
  return data_error_of([&] { static_cast<void>(read(config_of(architecture, more))); });
}

inline nlohmann::json rope_of(const std::string& type, nlohmann::json fields) {
  fields["rope_type"] = type;
  return fields;
}

inline std::string text_of(const config::Model& model) {
  config::Config config;
  config.model = model;
  return config::to_ini(config);
}

}  // namespace sft::test
