// SPDX-License-Identifier: Apache-2.0
#pragma once
// Tokens by id and by name: the "vocab" of tokenizer.json.

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "sft/text/tokenizer.hpp"
#include "text/json_fields.hpp"

namespace sft::text {

class Vocabulary {
 public:
  /// Reads an object {token: id}. Throws std::invalid_argument where ids are shared, or far more than there are tokens.
  explicit Vocabulary(const Json& description);

  [[nodiscard]] std::size_t size() const { return ids_.size(); }
  /// The highest id plus one.
  [[nodiscard]] std::size_t num_ids() const { return tokens_.size(); }
  [[nodiscard]] std::size_t longest_token_bytes() const { return longest_token_bytes_; }
  [[nodiscard]] std::optional<TokenId> id_of(std::string_view token) const;
  /// By id; null in a hole.
  [[nodiscard]] const std::vector<const std::string*>& tokens() const { return tokens_; }

 private:
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };

  std::unordered_map<std::string, TokenId, Hash, std::equal_to<>> ids_;
  std::vector<const std::string*> tokens_;
  std::size_t longest_token_bytes_ = 0;
};

}  // namespace sft::text
