// SPDX-License-Identifier: Apache-2.0
#include "text/added_tokens.hpp"

#include <algorithm>

#include "text/unicode.hpp"
#include "text/utf8.hpp"

namespace sft::text {

namespace {

/// Where the blanks that end text[0, end) begin, not before `least`.
std::size_t blanks_begin(std::string_view text, std::size_t least, std::size_t end) {
  while (end > least) {
    const Character c = character_before(text, end);
    if (!is_space(c.code_point)) break;
    end -= c.size;
  }
  return std::max(end, least);
}

std::size_t blanks_end(std::string_view text, std::size_t begin) {
  while (begin < text.size() && is_space(character_at(text, begin).code_point)) begin += character_at(text, begin).size;
  return begin;
}

bool is_single_word(std::string_view text, ByteRange range) {
  const bool goes_on_before = range.begin > 0 && is_word(character_before(text, range.begin).code_point);
  const bool goes_on_behind = range.end < text.size() && is_word(character_at(text, range.end).code_point);
  return !goes_on_before && !goes_on_behind;
}

}  // namespace

AddedToken added_token_of(const Json& description) {
  return {.content = string_of(description, "content"),
          .single_word = bool_of(description, "single_word", false),
          .lstrip = bool_of(description, "lstrip", false),
          .rstrip = bool_of(description, "rstrip", false),
          .normalized = bool_of(description, "normalized", false),
          .special = bool_of(description, "special", false)};
}

std::uint32_t TokenFinder::child_of(std::uint32_t node, char byte) const {
  const auto value = static_cast<unsigned char>(byte);
  if (node == 0) return first_[value];
  const auto found = children_.find(std::uint64_t{node} << 8U | value);
  return found == children_.end() ? no_node : found->second;
}

void TokenFinder::add(std::string_view content, TokenId id) {
  if (content.empty()) return;
  std::uint32_t node = 0;
  for (const char byte : content) {
    std::uint32_t child = child_of(node, byte);
    if (child == no_node) {
      child = static_cast<std::uint32_t>(ids_.size());
      ids_.push_back(no_token);
      const auto value = static_cast<unsigned char>(byte);
      if (node == 0) {
        first_[value] = child;
      } else {
        children_.emplace(std::uint64_t{node} << 8U | value, child);
      }
    }
    node = child;
  }
  if (ids_[node] == no_token) ids_[node] = id;
}

std::optional<TokenFinder::Match> TokenFinder::find(std::string_view text, std::size_t from) const {
  if (ids_.size() == 1) return std::nullopt;
  for (std::size_t begin = from; begin < text.size(); ++begin) {
    std::optional<Match> longest;
    std::uint32_t node = first_[static_cast<unsigned char>(text[begin])];
    for (std::size_t end = begin + 1; node != no_node; ++end) {
      if (ids_[node] != no_token) longest = {{begin, end}, ids_[node]};
      if (end == text.size()) break;
      node = child_of(node, text[end]);
    }
    if (longest) return longest;
  }
  return std::nullopt;
}

void AddedTokens::add(const std::vector<AddedToken>& tokens, const Vocabulary& vocabulary) {
  for (const AddedToken& token : tokens) {
    if (token.special && !token.content.empty() && specials_.insert(token.content).second)
      special_list_.push_back(token);
  }
  for (const AddedToken& token : tokens) {
    if (token.content.empty()) continue;
    std::optional<TokenId> id = id_of(token.content);
    if (id && tokens_.at(*id) == token) continue;
    if (!id) id = vocabulary.id_of(token.content);
    if (!id) id = std::max(static_cast<TokenId>(vocabulary.size()), highest_id_ + 1);
    ids_[token.content] = *id;
    tokens_[*id] = token;
    highest_id_ = std::max(highest_id_, *id);
    if (!specials_.contains(token.content)) plain_list_.push_back(token);
  }
}

void AddedTokens::prepare(const Normalizer* normalizer) {
  in_text_ = in_normalized_ = {};
  for (const std::vector<AddedToken>* list : {&special_list_, &plain_list_}) {
    for (const AddedToken& token : *list) {
      const TokenId id = ids_.at(token.content);
      if (!token.normalized || normalizer == nullptr) {
        (token.normalized ? in_normalized_ : in_text_).add(token.content, id);
        continue;
      }
      TextStore store;
      const TextView content = {.text = token.content, .at_input_begin = true};
      const std::string_view normalized = normalizer->normalize(content, store, /*with_origins=*/false).text;
      in_normalized_.add(normalized, id);
      normalized_.insert_or_assign(id, std::string(normalized));
    }
  }
}

std::optional<TokenId> AddedTokens::id_of(std::string_view content) const {
  const auto found = ids_.find(std::string(content));
  return found == ids_.end() ? std::nullopt : std::optional(found->second);
}

const AddedToken* AddedTokens::token_of(TokenId id) const {
  const auto found = tokens_.find(id);
  return found == tokens_.end() ? nullptr : &found->second;
}

const std::string* AddedTokens::text_of(TokenId id) const {
  if (const auto found = normalized_.find(id); found != normalized_.end()) return &found->second;
  const AddedToken* const token = token_of(id);
  return token == nullptr ? nullptr : &token->content;
}

std::vector<std::pair<TokenId, AddedToken>> AddedTokens::all() const {
  std::vector<std::pair<TokenId, AddedToken>> tokens(tokens_.begin(), tokens_.end());
  std::sort(tokens.begin(), tokens.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  return tokens;
}

void AddedTokens::find(std::string_view text, bool is_normalized, bool skip_special,
                       std::vector<TokenOrText>& parts) const {
  parts.clear();
  const TokenFinder& finder = is_normalized ? in_normalized_ : in_text_;
  std::size_t done = 0;
  for (std::size_t from = 0;;) {
    const std::optional<TokenFinder::Match> match = finder.find(text, from);
    if (!match) break;
    from = match->range.end;
    const AddedToken& token = tokens_.at(match->id);
    if ((skip_special && is_special(token.content)) || (token.single_word && !is_single_word(text, match->range)))
      continue;
    ByteRange range = match->range;
    if (token.lstrip) range.begin = blanks_begin(text, done, range.begin);
    if (token.rstrip) range.end = blanks_end(text, range.end);
    if (done < range.begin) parts.push_back({{done, range.begin}, std::nullopt});
    parts.push_back({range, match->id});
    done = range.end;
  }
  if (done < text.size()) parts.push_back({{done, text.size()}, std::nullopt});
}

}  // namespace sft::text
