// SPDX-License-Identifier: Apache-2.0
#pragma once
// What tokenizer_config.json and special_tokens_map.json of a model folder add to tokenizer.json, as transformers reads
// them.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "text/added_tokens.hpp"
#include "text/json_fields.hpp"

namespace sft::text {

struct TokenizerConfig {
  /// Tokens by role: "bos_token", "eos_token", "pad_token", "unk_token" and so on.
  std::map<std::string, AddedToken> roles;
  /// Roles that the tokenizer_class fills where its vocabulary has these tokens and `roles` has none.
  std::map<std::string, std::string> default_roles;
  /// The tokens of "added_tokens_decoder", by ascending id.
  std::vector<AddedToken> added;
  /// The tokens of "additional_special_tokens" or "extra_special_tokens".
  std::vector<AddedToken> extra_specials;
  /// Whether the tokenizer_class puts the bos_token before every text, whatever tokenizer.json says.
  bool begins_with_bos = false;
};

/// Reads the texts of the two files, empty where there is none. Throws std::invalid_argument with the reason and the
/// name of the file.
[[nodiscard]] TokenizerConfig read_tokenizer_config(const std::string& tokenizer_config_json,
                                                    const std::string& special_tokens_map_json);

}  // namespace sft::text
