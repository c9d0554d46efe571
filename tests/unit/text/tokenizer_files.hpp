// SPDX-License-Identifier: Apache-2.0
#pragma once
// tokenizer.json files for tests: those of fixtures/, and small ones written out.

#include <fstream>
#include <initializer_list>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "sft/text/hub_tokenizer.hpp"

namespace sft::test {

/// {"tokenizer": ..., "cases": [...]}, see fixtures/make_tokenizer_ids.py.
inline nlohmann::json read_fixture(const std::string& family) {
  std::ifstream file(SFT_SOURCE_DIR "/tests/unit/text/fixtures/" + family + ".json");
  return nlohmann::json::parse(file);
}

/// A model whose vocabulary is `tokens` with ids from 0 on, and no rule beside it.
inline nlohmann::json make_description(const std::vector<std::string>& tokens,
                                       const std::vector<std::pair<std::string, std::string>>& merges) {
  nlohmann::json vocab = nlohmann::json::object();
  for (const std::string& token : tokens) vocab[token] = vocab.size();
  return {{"added_tokens", nlohmann::json::array()},
          {"normalizer", nullptr},
          {"pre_tokenizer", nullptr},
          {"post_processor", nullptr},
          {"decoder", nullptr},
          {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", merges}}}};
}

inline std::unique_ptr<text::Tokenizer> make_tokenizer(const nlohmann::json& description,
                                                       const std::string& config = "",
                                                       const std::string& special_tokens_map = "") {
  return text::make_hub_tokenizer({.name = "test",
                                   .tokenizer_json = description.dump(),
                                   .tokenizer_config_json = config,
                                   .special_tokens_map_json = special_tokens_map});
}

}  // namespace sft::test
