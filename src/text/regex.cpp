// SPDX-License-Identifier: Apache-2.0
#include "text/regex.hpp"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <span>
#include <stdexcept>

#include "sft/core/error.hpp"
#include "text/unicode.hpp"
#include "text/utf8.hpp"

namespace sft::text {

namespace {

constexpr std::size_t max_jit_stack_bytes = std::size_t{64} << 20;

std::string message_of(int error) {
  std::array<PCRE2_UCHAR, 256> buffer{};
  ::pcre2_get_error_message(error, buffer.data(), buffer.size());
  return reinterpret_cast<const char*>(buffer.data());
}

struct Free {
  void operator()(pcre2_code* code) const { ::pcre2_code_free(code); }
  void operator()(pcre2_match_data* data) const { ::pcre2_match_data_free(data); }
  void operator()(pcre2_match_context* context) const { ::pcre2_match_context_free(context); }
  void operator()(pcre2_jit_stack* stack) const { ::pcre2_jit_stack_free(stack); }
};

/// What one thread needs to search. The stack on the heap is made when the one of the thread was too small.
class Searcher {
 public:
  explicit Searcher(const pcre2_code* code)
      : code_(code), data_(::pcre2_match_data_create_from_pattern(code, nullptr)) {}

  /// Whether there is a match at or behind `from`.
  bool search(std::string_view text, std::size_t from, ByteRange& match) {
    int result = run(text, from);
    if (result == PCRE2_ERROR_JIT_STACKLIMIT && !stack_) {
      context_.reset(::pcre2_match_context_create(nullptr));
      stack_.reset(::pcre2_jit_stack_create(std::size_t{32} << 10, max_jit_stack_bytes, nullptr));
      ::pcre2_jit_stack_assign(context_.get(), nullptr, stack_.get());
      result = run(text, from);
    }
    if (result == PCRE2_ERROR_NOMATCH) return false;
    if (result < 0) {
      throw_data_error("a text cannot be split into words", "the tokenizer's regular expression: " + message_of(result),
                       "give shorter texts, or check the pre_tokenizer of tokenizer.json");
    }
    const PCRE2_SIZE* const ends = ::pcre2_get_ovector_pointer(data_.get());
    match = {ends[0], ends[1]};
    return true;
  }

 private:
  int run(std::string_view text, std::size_t from) {
    return ::pcre2_match(code_, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), from, PCRE2_NO_UTF_CHECK,
                         data_.get(), context_.get());
  }

  const pcre2_code* code_;
  std::unique_ptr<pcre2_match_data, Free> data_;
  std::unique_ptr<pcre2_match_context, Free> context_;
  std::unique_ptr<pcre2_jit_stack, Free> stack_;
};

std::unique_ptr<pcre2_code, Free> compile(const std::string& pattern) {
  int error = 0;
  PCRE2_SIZE place = 0;
  std::unique_ptr<pcre2_code, Free> compiled(
      ::pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                      PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &error, &place, nullptr));
  if (!compiled) throw std::invalid_argument(message_of(error));
  ::pcre2_jit_compile(compiled.get(), PCRE2_JIT_COMPLETE);  // without it, on an unusual processor, it is only slower
  return compiled;
}

/// Whether a character is younger than PCRE2's tables. All of them take three bytes or four.
bool has_additions(std::string_view text) {
  const std::span<const UnicodeAddition> additions = unicode_additions();
  for (std::size_t place = 0; place < text.size(); ++place) {
    if (static_cast<unsigned char>(text[place]) < 0xE0) continue;
    const char32_t c = character_at(text, place).code_point;
    const auto next =
        std::upper_bound(additions.begin(), additions.end(), c,
                         [](char32_t code_point, const UnicodeAddition& each) { return code_point < each.first; });
    if (next != additions.begin() && c <= std::prev(next)->last) return true;
  }
  return false;
}

}  // namespace

struct Regex::Code {
  std::unique_ptr<pcre2_code, Free> plain;           ///< for texts without characters younger than PCRE2's tables
  std::unique_ptr<pcre2_code, Free> with_additions;  ///< for all texts
};

Regex::Regex(const std::string& pattern)
    : code_(std::make_unique<const Code>(Code{compile(translate_regex(pattern, /*with_additions=*/false)),
                                              compile(translate_regex(pattern, true))})) {}

Regex::~Regex() = default;
Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;

void Regex::find_all(std::string_view text, std::vector<ByteRange>& matches) const {
  matches.clear();
  Searcher searcher(has_additions(text) ? code_->with_additions.get() : code_->plain.get());
  ByteRange match;
  for (std::size_t from = 0; from <= text.size() && searcher.search(text, from, match);) {
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
