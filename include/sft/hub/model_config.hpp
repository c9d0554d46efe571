// SPDX-License-Identifier: Apache-2.0
#pragma once
// config.json of a model folder <-> the [model] section; what its generation_config.json says.

#include <cstdint>
#include <string>
#include <vector>

#include "sft/config/config.hpp"
#include "sft/hub/weights.hpp"

namespace sft::hub {

/// What a config.json says.
struct ModelConfig {
  config::Model model;  ///< model_name_or_path and init_seed keep their defaults
  /// Sentences on fields that the family does not read but that may stand for other math. For warnings.
  std::vector<std::string> warnings;
};

/// Reads the config.json of one of the families of src/tools/hub/families, with rotary scaling as transformers 4
/// (rope_theta, rope_scaling) or 5 (rope_parameters) writes it. Every field that changes the family's math is taken
/// over, or refused by name with a data Error; fields that are not there have the family's default. `source` names the
/// text in messages. Pure.
[[nodiscard]] ModelConfig parse_model_config(const std::string& text, const std::string& source);
/// parse_model_config of the text of FOLDER/config.json.
[[nodiscard]] ModelConfig read_model_config(const std::string& folder);

/// A config.json for weights of the model stored as `type`. `original`: the config.json that the model began with,
/// whose fields stay but for the dtype and a head that is no longer tied, and where it has rope_parameters alone
/// (transformers 5) rope_theta and rope_scaling are added; empty: one is made, of the family that has these parts.
/// `max_length` stands in for max_position_embeddings where that is not known. A data Error when no family has the
/// model's parts.
[[nodiscard]] std::string make_config_json(const config::Model& model, WeightType type, const std::string& original,
                                           std::int64_t max_length);

/// The tokens that end a text: `eos_token_id`, one id or several, of FOLDER/generation_config.json, else of
/// FOLDER/config.json; none where neither names one. A data Error names the file that cannot be used.
[[nodiscard]] std::vector<std::int32_t> read_eos_token_ids(const std::string& folder);

}  // namespace sft::hub
