// SPDX-License-Identifier: Apache-2.0
#include "text/vocabulary.hpp"

#include <fmt/core.h>
#include <algorithm>
#include <stdexcept>

namespace sft::text {

Vocabulary::Vocabulary(const Json& description) {
  if (!description.is_object()) throw std::invalid_argument("the model's \"vocab\" is no object");
  ids_.reserve(description.size());
  std::size_t num_ids = 0;
  for (const auto& [token, value] : description.items()) {
    const TokenId id = number_of(value, "an id of the vocabulary");
    ids_.emplace(token, id);
    num_ids = std::max<std::size_t>(num_ids, id + 1);
    longest_token_bytes_ = std::max(longest_token_bytes_, token.size());
  }
  if (num_ids > 4 * ids_.size() + 65536) {
    throw std::invalid_argument(
        fmt::format("the id {} is far beyond the {} tokens of the vocabulary", num_ids - 1, ids_.size()));
  }
  tokens_.resize(num_ids);
  for (const auto& [token, id] : ids_) {
    const std::string*& place = tokens_[id];
    if (place != nullptr) throw std::invalid_argument(fmt::format("two tokens of the vocabulary have the id {}", id));
    place = &token;
  }
}

std::optional<TokenId> Vocabulary::id_of(std::string_view token) const {
  const auto found = ids_.find(token);
  return found == ids_.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace sft::text
