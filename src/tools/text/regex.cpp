// SPDX-License-Identifier: Apache-2.0
#include "text/regex.hpp"

#include <oniguruma.h>

#include <fmt/core.h>
#include <algorithm>
#include <array>
#include <stdexcept>

#include "sft/core/error.hpp"
#include "text/unicode.hpp"
#include "text/utf8.hpp"

namespace sft::text {

namespace {

/// What Oniguruma allows for one place of a text unless told otherwise, so what `tokenizers` allows.
constexpr unsigned long max_retries_of_match = 10'000'000;
/// What a search through a text may take besides: some seconds. `tokenizers` has no such bound.
constexpr unsigned long max_retries_of_search = 200'000'000;
constexpr unsigned long max_retries_of_byte = 64;
/// Of some 40 bytes each.
constexpr unsigned int max_stack_entries = 8'000'000;

const OnigUChar* bytes_of(std::string_view text) { return reinterpret_cast<const OnigUChar*>(text.data()); }

std::string message_of(int error, OnigErrorInfo* info = nullptr) {
  std::array<OnigUChar, ONIG_MAX_ERROR_MESSAGE_LEN> message{};
  const int size = info == nullptr ? ::onig_error_code_to_str(message.data(), error)
                                   : ::onig_error_code_to_str(message.data(), error, info);
  return {reinterpret_cast<const char*>(message.data()), static_cast<std::size_t>(size)};
}

void initialize_library() {
  static const int status = [] {
    std::array<OnigEncoding, 1> encodings = {ONIG_ENCODING_UTF8};
    return ::onig_initialize(encodings.data(), static_cast<int>(encodings.size()));
  }();
  if (status != ONIG_NORMAL) throw std::invalid_argument(message_of(status));
}

/// The pattern with two constructs spelled out that Oniguruma 6.9.8, unlike the version in `tokenizers`, reads wrongly:
/// [:punct:] lacks symbols, and a repeated \R loses line ends.
std::string spell_out(std::string_view pattern) {
  constexpr std::string_view line_end = R"((?>\x0D\x0A|[\x0A-\x0D\x{85}\x{2028}\x{2029}]))";
  constexpr std::string_view punctuation = R"([:punct:]\p{S})";
  std::string spelled;
  int set_depth = 0;
  const auto take = [&](std::size_t size, std::string_view instead) {
    spelled += instead;
    pattern.remove_prefix(size);
  };
  while (!pattern.empty()) {
    const bool in_set = set_depth > 0;
    if (!in_set && pattern.starts_with("\\R")) {
      take(2, line_end);
    } else if (pattern[0] == '\\') {
      take(std::min<std::size_t>(2, pattern.size()), pattern.substr(0, 2));
    } else if (in_set && pattern.starts_with("[:punct:]")) {
      take(9, punctuation);
    } else if (in_set && pattern.starts_with("[:^punct:]")) {
      take(10, fmt::format("[^{}]", punctuation));
    } else if (in_set && pattern.starts_with("[:") && pattern.find(":]") != std::string_view::npos) {
      const std::size_t size = pattern.find(":]") + 2;
      take(size, pattern.substr(0, size));
    } else if (pattern[0] == '[') {
      std::size_t size = pattern.substr(1).starts_with('^') ? 2 : 1;
      if (pattern.substr(size).starts_with(']')) ++size;  // a member
      take(size, pattern.substr(0, size));
      ++set_depth;
    } else {
      if (in_set && pattern[0] == ']') --set_depth;
      take(1, pattern.substr(0, 1));
    }
  }
  return spelled;
}

struct Free {
  void operator()(OnigRegion* region) const { ::onig_region_free(region, 1); }
  void operator()(OnigMatchParam* limits) const { ::onig_free_match_param(limits); }
};

/// The searches through one text.
class Searcher {
 public:
  Searcher(OnigRegex regex, std::string_view text)
      : regex_(regex), text_(text), region_(::onig_region_new()), limits_(::onig_new_match_param()) {
    if (!region_ || !limits_) throw std::bad_alloc();
    ::onig_initialize_match_param(limits_.get());
    ::onig_set_retry_limit_in_match_of_match_param(limits_.get(), max_retries_of_match);
    ::onig_set_retry_limit_in_search_of_match_param(limits_.get(),
                                                    max_retries_of_search + max_retries_of_byte * text.size());
    ::onig_set_match_stack_limit_size_of_match_param(limits_.get(), max_stack_entries);
  }

  /// Whether there is a match at or behind `from`.
  bool search(std::size_t from, ByteRange& match) {
    const OnigUChar* const begin = bytes_of(text_);
    const OnigUChar* const end = begin + text_.size();
    const int result =
        ::onig_search_with_param(regex_, begin, end, begin + from, end, region_.get(), ONIG_OPTION_NONE, limits_.get());
    if (result == ONIG_MISMATCH) return false;
    if (result < 0) {
      throw_data_error("a text cannot be split into words", "the tokenizer's regular expression: " + message_of(result),
                       "give shorter texts, or check the pre_tokenizer of tokenizer.json");
    }
    match = {static_cast<std::size_t>(region_->beg[0]), static_cast<std::size_t>(region_->end[0])};
    return true;
  }

 private:
  OnigRegex regex_;
  std::string_view text_;
  std::unique_ptr<OnigRegion, Free> region_;
  std::unique_ptr<OnigMatchParam, Free> limits_;
};

}  // namespace

struct Regex::Code {
  explicit Code(const std::string& pattern) {
    initialize_library();
    OnigErrorInfo info = {};
    const std::string spelled = spell_out(pattern);
    const OnigUChar* const begin = bytes_of(spelled);
    const int status = ::onig_new(&regex, begin, begin + spelled.size(), ONIG_OPTION_NONE, ONIG_ENCODING_UTF8,
                                  ONIG_SYNTAX_DEFAULT, &info);
    if (status != ONIG_NORMAL) throw std::invalid_argument(message_of(status, &info));
  }
  Code(const Code&) = delete;
  Code& operator=(const Code&) = delete;
  ~Code() { ::onig_free(regex); }

  OnigRegex regex = nullptr;
};

Regex::Regex(const std::string& pattern) : code_(std::make_unique<const Code>(pattern)) {}

Regex::~Regex() = default;
Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;

void Regex::find_all(std::string_view text, std::vector<ByteRange>& matches) const {
  matches.clear();
  const std::string replaced = replace_young_characters(text);
  Searcher searcher(code_->regex, replaced.empty() ? text : replaced);
  ByteRange match;
  for (std::size_t from = 0; from <= text.size() && searcher.search(from, match);) {
    if (match.begin == match.end && !matches.empty() && matches.back().end == match.end) {
      from += from < text.size() ? character_at(text, from).size : 1;
    } else {
      matches.push_back(match);
      from = match.end;
    }
  }
}

void check_replacement(const Regex& regex, const std::string& content) {
  std::vector<ByteRange> matches;
  regex.find_all("", matches);
  if (!matches.empty()) throw std::invalid_argument("a Replace has a pattern that matches an empty text");
  if (content.find('$') != std::string::npos) {
    throw std::invalid_argument("a Replace with groups in its content is not supported");
  }
}

}  // namespace sft::text
