// SPDX-License-Identifier: Apache-2.0
#include "text/byte_pair_model.hpp"

#include <fmt/core.h>
#include <algorithm>
#include <cstdint>
#include <functional>
#include <queue>
#include <span>
#include <stdexcept>
#include <utility>

#include "sft/core/error.hpp"
#include "text/byte_characters.hpp"
#include "text/utf8.hpp"

namespace sft::text {

/// A token in the making. Those that were merged into their left neighbour have id -1.
struct BytePairModel::Symbol {
  TokenId id = 0;
  std::uint32_t begin = 0, end = 0;
  std::uint32_t previous = 0, next = 0;  ///< used by merge_many
};

namespace {

constexpr std::string_view blank = "\xE2\x96\x81";  // U+2581, sentencepiece's blank
constexpr std::size_t max_few_symbols = 32;
constexpr char32_t num_low_characters = 0x3000;
constexpr TokenId no_token = -1;
constexpr TokenId merged_away = -1;

const Json& check_model(const Json& description) {
  const std::string type = string_of(description, "type", has_field(description, "merges") ? "BPE" : "of no type");
  if (type != "BPE") throw std::invalid_argument(fmt::format("the model {} is not supported, only BPE is", type));
  if (has_field(description, "dropout") && field_of(description, "dropout") != 0.0) {
    throw std::invalid_argument("the model drops merges at random (dropout)");
  }
  return description;
}

struct MergeRule {
  std::string left, right;
};

MergeRule rule_of(const Json& description) {
  if (description.is_array() && description.size() == 2 && description[0].is_string() && description[1].is_string()) {
    return {description[0].get<std::string>(), description[1].get<std::string>()};
  }
  if (!description.is_string()) throw std::invalid_argument("a merge is neither a string nor a pair of strings");
  const std::string text = description.get<std::string>();
  const std::size_t gap = text.find(' ');
  if (gap == std::string::npos || text.find(' ', gap + 1) != std::string::npos) {
    throw std::invalid_argument(fmt::format("the merge '{}' is not two tokens with a blank between them", text));
  }
  return {text.substr(0, gap), text.substr(gap + 1)};
}

/// Which characters [begin, end) of `text` are, as numbers of characters, where each counts as soon as it begins.
WordToken in_characters(std::string_view text, const WordToken& token) {
  const auto count = [text](std::size_t size) {
    return static_cast<std::uint32_t>(std::count_if(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(size),
                                                    [](char c) { return !is_continuation(c); }));
  };
  return {token.id, count(token.begin), count(token.end)};
}

}  // namespace

BytePairModel::BytePairModel(const Json& description, bool takes_bytes)
    : vocabulary_(field_of(check_model(description), "vocab")),
      merges_(array_of(description, "merges").size()),
      takes_bytes_(takes_bytes),
      unknown_(string_of(description, "unk_token", "")),
      prefix_(string_of(description, "continuing_subword_prefix", "")),
      suffix_(string_of(description, "end_of_word_suffix", "")),
      fuse_unknown_(bool_of(description, "fuse_unk", false)),
      byte_fallback_(bool_of(description, "byte_fallback", false)),
      ignore_merges_(bool_of(description, "ignore_merges", false)) {
  read_merges(field_of(description, "merges"));
  for (std::size_t byte = 0; byte < byte_ids_.size(); ++byte) {
    byte_ids_[byte] = vocabulary_.id_of(byte_characters()[byte]).value_or(no_token);
  }
  for (std::size_t byte = 0; byte < fallback_ids_.size(); ++byte) {
    constexpr std::string_view digits = "0123456789ABCDEF";
    const std::string name = fmt::format("<0x{}{}>", digits[byte / 16], digits[byte % 16]);
    fallback_ids_[byte] = vocabulary_.id_of(name).value_or(no_token);
  }
  find_characters();
  find_cuts();
}

void BytePairModel::read_merges(const Json& description) {
  std::uint32_t rank = 0;
  for (const Json& each : description) {
    const MergeRule rule = rule_of(each);
    if (rule.right.size() < prefix_.size()) {
      throw std::invalid_argument(
          fmt::format("the merge of '{}' and '{}' lacks the prefix {}", rule.left, rule.right, prefix_));
    }
    const auto id_of = [this](const std::string& token) {
      if (const auto id = vocabulary_.id_of(token)) return *id;
      throw std::invalid_argument(fmt::format("a merge needs the token '{}', which the vocabulary has not", token));
    };
    const TokenId left = id_of(rule.left), right = id_of(rule.right);
    merges_.set(left, right, {rank++, id_of(rule.left + rule.right.substr(prefix_.size()))});
  }
}

void BytePairModel::find_characters() {
  character_ids_.assign(num_low_characters, no_token);
  const std::vector<const std::string*>& tokens = vocabulary_.tokens();
  for (std::size_t id = 0; id < tokens.size(); ++id) {
    if (tokens[id] == nullptr || tokens[id]->empty()) continue;
    const Character c = character_at(*tokens[id], 0);
    if (c.size == tokens[id]->size() && c.code_point < num_low_characters) {
      character_ids_[c.code_point] = static_cast<TokenId>(id);
    }
  }
}

/// no_token where it is not in the vocabulary.
TokenId BytePairModel::id_of_character(std::string_view word, std::size_t begin, std::size_t end) const {
  const bool has_prefix = begin > 0 && !prefix_.empty(), has_suffix = end == word.size() && !suffix_.empty();
  if (!has_prefix && !has_suffix) {
    const Character c = character_at(word, begin);
    if (c.code_point < num_low_characters) return character_ids_[c.code_point];
    return vocabulary_.id_of(word.substr(begin, c.size)).value_or(no_token);
  }
  return vocabulary_.id_of(name_of_character(word, begin, end)).value_or(no_token);
}

/// With the prefix of a character that does not begin the word, and the suffix of one that ends it.
std::string BytePairModel::name_of_character(std::string_view word, std::size_t begin, std::size_t end) const {
  return (begin > 0 ? prefix_ : "") + std::string(word.substr(begin, end - begin)) +
         (end == word.size() ? suffix_ : "");
}

void BytePairModel::find_cuts() {
  can_cut_ = !takes_bytes_ && prefix_.empty() && suffix_.empty() && vocabulary_.id_of(blank).has_value();
  if (!can_cut_) return;
  for (const std::string* token : vocabulary_.tokens()) {
    if (token == nullptr) continue;
    for (std::size_t place = token->find(blank, 1); place != std::string::npos; place = token->find(blank, place + 1)) {
      before_blanks_.insert(character_before(*token, place).code_point);
    }
  }
}

TokenId BytePairModel::unknown_id() const {
  if (const auto id = vocabulary_.id_of(unknown_)) return *id;
  throw_data_error("a text has a character that the tokenizer does not know",
                   fmt::format("its unknown token {} is not in its vocabulary", unknown_),
                   "repair the model in tokenizer.json");
}

void BytePairModel::tokenize(std::string_view word, WordCache& cache, std::vector<WordToken>& tokens) const {
  tokens.clear();
  if (!can_cut_) return tokenize_part(word, 0, ignore_merges_, cache, tokens);
  if (ignore_merges_ && word.size() <= vocabulary_.longest_token_bytes()) {
    if (const auto id = vocabulary_.id_of(word)) {
      tokens.push_back({*id, 0, static_cast<std::uint32_t>(word.size())});
      return;
    }
  }
  std::size_t begin = 0;
  for (std::size_t place = word.find(blank, 1); place != std::string_view::npos; place = word.find(blank, place + 1)) {
    if (before_blanks_.contains(character_before(word, place).code_point)) continue;
    tokenize_part(word.substr(begin, place - begin), begin, false, cache, tokens);
    begin = place;
  }
  tokenize_part(word.substr(begin), begin, false, cache, tokens);
}

void BytePairModel::tokenize_part(std::string_view part, std::size_t begin, bool look_up_whole, WordCache& cache,
                                  std::vector<WordToken>& tokens) const {
  const auto append = [&tokens, begin](std::span<const WordToken> more) {
    const auto shift = static_cast<std::uint32_t>(begin);
    for (const WordToken& token : more) tokens.push_back({token.id, token.begin + shift, token.end + shift});
  };
  if (part.size() > WordCache::max_word_bytes) return append(merge_word(part, look_up_whole));
  const std::uint64_t hash = WordCache::hash_of(part);
  if (const auto known = cache.find(part, hash)) return append(*known);
  const std::vector<WordToken> made = merge_word(part, look_up_whole);
  cache.insert(part, hash, made);
  append(made);
}

std::vector<WordToken> BytePairModel::merge_word(std::string_view word, bool look_up_whole) const {
  const auto size = static_cast<std::uint32_t>(word.size());
  if (look_up_whole && word.size() <= vocabulary_.longest_token_bytes()) {
    const auto id = takes_bytes_ ? vocabulary_.id_of(to_byte_characters(word)) : vocabulary_.id_of(word);
    if (id) return {{*id, 0, size}};
  }
  std::vector<Symbol> symbols;
  symbols.reserve(word.size());
  std::string characters;
  const bool were_all_known = takes_bytes_ && symbols_of_bytes(word, symbols);
  if (!were_all_known) {
    if (takes_bytes_) characters = to_byte_characters(word);
    symbols_of_characters(takes_bytes_ ? characters : word, symbols);
  }
  if (symbols.size() <= max_few_symbols) {
    merge_few(symbols);
  } else {
    merge_many(symbols);
  }
  std::vector<WordToken> tokens;
  for (const Symbol& symbol : symbols) {
    if (symbol.id == merged_away) continue;
    const WordToken token = {symbol.id, symbol.begin, symbol.end};
    tokens.push_back(characters.empty() ? token : in_characters(characters, token));
  }
  return tokens;
}

bool BytePairModel::symbols_of_bytes(std::string_view word, std::vector<Symbol>& symbols) const {
  if (!prefix_.empty() || !suffix_.empty()) return false;
  for (std::uint32_t i = 0; i < word.size(); ++i) {
    const TokenId id = byte_ids_[static_cast<unsigned char>(word[i])];
    if (id == no_token) {
      symbols.clear();
      return false;
    }
    symbols.push_back({.id = id, .begin = i, .end = i + 1});
  }
  return true;
}

void BytePairModel::symbols_of_characters(std::string_view word, std::vector<Symbol>& symbols) const {
  bool is_unknown_open = false;
  Symbol unknown;  // not among the symbols yet, as it may grow
  const auto close_unknown = [&] {
    if (is_unknown_open) symbols.push_back(unknown);
    is_unknown_open = false;
  };
  for (std::size_t place = 0; place < word.size();) {
    const std::size_t end = place + character_at(word, place).size;
    const auto begin32 = static_cast<std::uint32_t>(place), end32 = static_cast<std::uint32_t>(end);
    if (const TokenId id = id_of_character(word, place, end); id != no_token) {
      close_unknown();
      symbols.push_back({.id = id, .begin = begin32, .end = end32});
    } else if (byte_fallback_ && append_fallback(name_of_character(word, place, end), begin32, end32, symbols)) {
      // Its bytes are there instead.
    } else if (!unknown_.empty()) {
      if (is_unknown_open && fuse_unknown_) {
        unknown.end = end32;
      } else {
        close_unknown();
        unknown = {.id = unknown_id(), .begin = begin32, .end = end32};
        is_unknown_open = true;
      }
    }
    place = end;
  }
  close_unknown();
}

bool BytePairModel::append_fallback(std::string_view name, std::uint32_t begin, std::uint32_t end,
                                    std::vector<Symbol>& symbols) const {
  const bool are_all_known = std::all_of(
      name.begin(), name.end(), [this](char byte) { return fallback_ids_[static_cast<unsigned char>(byte)] >= 0; });
  if (!are_all_known) return false;
  for (std::uint32_t i = 0; i < name.size(); ++i) {
    symbols.push_back({.id = fallback_ids_[static_cast<unsigned char>(name[i])],
                       .begin = std::min(begin + i, end - 1),
                       .end = std::min(begin + i + 1, end)});
  }
  return true;
}

void BytePairModel::merge_few(std::vector<Symbol>& symbols) const {
  if (symbols.size() < 2) return;
  std::array<Merge, max_few_symbols> merges;  // of each symbol with the next one
  std::size_t num_pairs = symbols.size() - 1;
  const auto merge_at = [&](std::size_t i) { return merges_.find(symbols[i].id, symbols[i + 1].id); };
  for (std::size_t i = 0; i < num_pairs; ++i) merges[i] = merge_at(i);
  while (num_pairs > 0) {
    const auto best = std::min_element(merges.begin(), merges.begin() + static_cast<std::ptrdiff_t>(num_pairs),
                                       [](const Merge& a, const Merge& b) { return a.rank < b.rank; });
    if (best->rank == Merge::no_rank) break;
    const std::size_t i = best - merges.begin();
    symbols[i].id = best->product;
    symbols[i].end = symbols[i + 1].end;
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    std::copy(merges.begin() + static_cast<std::ptrdiff_t>(i) + 1,
              merges.begin() + static_cast<std::ptrdiff_t>(num_pairs), merges.begin() + static_cast<std::ptrdiff_t>(i));
    --num_pairs;
    if (i > 0) merges[i - 1] = merge_at(i - 1);
    if (i < num_pairs) merges[i] = merge_at(i);
  }
}

void BytePairModel::merge_many(std::vector<Symbol>& symbols) const {
  const auto num_symbols = static_cast<std::uint32_t>(symbols.size());
  // Ranks, and places of left symbols, in one number. Entries that a later merge made void stay until they come up.
  std::vector<std::uint64_t> entries;
  const auto entry_of = [&](std::uint32_t left) {
    const Merge merge = merges_.find(symbols[left].id, symbols[symbols[left].next].id);
    return std::pair(merge.rank != Merge::no_rank, std::uint64_t{merge.rank} << 32U | left);
  };
  for (std::uint32_t i = 0; i < num_symbols; ++i) {
    symbols[i].previous = i - 1;  // of the first one: none, never used
    symbols[i].next = i + 1;
  }
  for (std::uint32_t i = 0; i + 1 < num_symbols; ++i) {
    if (const auto [merges, entry] = entry_of(i); merges) entries.push_back(entry);
  }
  std::priority_queue queue(std::greater<>(), std::move(entries));
  const auto push = [&](std::uint32_t left) {
    if (const auto [merges, entry] = entry_of(left); merges) queue.push(entry);
  };
  while (!queue.empty()) {
    const std::uint64_t entry = queue.top();
    queue.pop();
    const auto place = static_cast<std::uint32_t>(entry);
    Symbol& left = symbols[place];
    if (left.id == merged_away || left.next == num_symbols) continue;
    Symbol& right = symbols[left.next];
    const Merge merge = merges_.find(left.id, right.id);
    if (merge.rank != entry >> 32U) continue;
    left.id = merge.product;
    left.end = right.end;
    left.next = right.next;
    right.id = merged_away;
    if (left.next < num_symbols) {
      symbols[left.next].previous = place;
      push(place);
    }
    if (place > 0) push(left.previous);
  }
}

}  // namespace sft::text
