// SPDX-License-Identifier: Apache-2.0
#include "text/text_steps.hpp"

#include <fmt/core.h>
#include <stdexcept>
#include <utility>

#include "text/byte_characters.hpp"
#include "text/known_patterns.hpp"
#include "text/regex.hpp"
#include "text/split_behavior.hpp"
#include "text/unicode.hpp"
#include "text/utf8.hpp"

namespace sft::text {

namespace {

using Steps = std::vector<std::unique_ptr<const WordStep>>;

void append_parts(const TextView& piece, const std::vector<ByteRange>& ranges, std::vector<TextView>& parts) {
  for (const ByteRange& range : ranges) parts.push_back(piece.part(range.begin, range.end));
}

/// An expression whose matches are words and cover the text, by hand.
class KnownPattern : public WordStep {
 public:
  explicit KnownPattern(WordCutter cutter) : cutter_(cutter) {}

  void split(const TextView& piece, TextStore& /*store*/, bool /*with_origins*/,
             std::vector<TextView>& parts) const override {
    std::vector<ByteRange> words;
    words.reserve(piece.text.size() / 4 + 1);
    cutter_(piece.text, words);
    append_parts(piece, words, parts);
  }

 private:
  WordCutter cutter_;
};

class SplitByRegex : public WordStep {
 public:
  SplitByRegex(Regex regex, SplitBehavior behavior, bool invert)
      : regex_(std::move(regex)), behavior_(behavior), invert_(invert) {}

  void split(const TextView& piece, TextStore& /*store*/, bool /*with_origins*/,
             std::vector<TextView>& parts) const override {
    std::vector<ByteRange> matches, ranges;
    regex_.find_all(piece.text, matches);
    split_at(matches, piece.text.size(), behavior_, invert_, ranges);
    append_parts(piece, ranges, parts);
  }

 private:
  Regex regex_;
  SplitBehavior behavior_;
  bool invert_;
};

class SplitByLiteral : public WordStep {
 public:
  SplitByLiteral(std::string literal, SplitBehavior behavior, bool invert)
      : literal_(std::move(literal)), behavior_(behavior), invert_(invert) {
    if (literal_.empty()) throw std::invalid_argument("a Split has an empty pattern");
  }

  void split(const TextView& piece, TextStore& /*store*/, bool /*with_origins*/,
             std::vector<TextView>& parts) const override {
    std::vector<ByteRange> matches, ranges;
    for (std::size_t place = piece.text.find(literal_); place != std::string_view::npos;
         place = piece.text.find(literal_, place + literal_.size())) {
      matches.push_back({place, place + literal_.size()});
    }
    split_at(matches, piece.text.size(), behavior_, invert_, ranges);
    append_parts(piece, ranges, parts);
  }

 private:
  std::string literal_;
  SplitBehavior behavior_;
  bool invert_;
};

/// The delimiters are single characters of some kind.
class SplitByCharacter : public WordStep {
 public:
  using Predicate = bool (*)(char32_t code_point);

  SplitByCharacter(Predicate is_delimiter, SplitBehavior behavior) : is_delimiter_(is_delimiter), behavior_(behavior) {}

  void split(const TextView& piece, TextStore& /*store*/, bool /*with_origins*/,
             std::vector<TextView>& parts) const override {
    std::vector<ByteRange> matches, ranges;
    for (std::size_t place = 0; place < piece.text.size();) {
      const Character c = character_at(piece.text, place);
      if (is_delimiter_(c.code_point)) matches.push_back({place, place + c.size});
      place += c.size;
    }
    split_at(matches, piece.text.size(), behavior_, /*invert=*/false, ranges);
    append_parts(piece, ranges, parts);
  }

 private:
  Predicate is_delimiter_;
  SplitBehavior behavior_;
};

/// Words, and runs of what is neither word nor blank.
class Whitespace : public WordStep {
 public:
  void split(const TextView& piece, TextStore& /*store*/, bool /*with_origins*/,
             std::vector<TextView>& parts) const override {
    enum class Kind : std::uint8_t { space, word, other };
    const auto kind_of = [](char32_t c) { return is_word(c) ? Kind::word : is_space(c) ? Kind::space : Kind::other; };
    std::size_t begin = 0;
    Kind kind = Kind::space;
    for (std::size_t place = 0; place < piece.text.size();) {
      const Character c = character_at(piece.text, place);
      if (const Kind next = kind_of(c.code_point); next != kind) {
        if (kind != Kind::space) parts.push_back(piece.part(begin, place));
        begin = place;
        kind = next;
      }
      place += c.size;
    }
    if (kind != Kind::space) parts.push_back(piece.part(begin, piece.text.size()));
  }
};

/// A blank before a text that begins with none.
class PrefixSpace : public WordStep {
 public:
  void split(const TextView& piece, TextStore& store, bool with_origins, std::vector<TextView>& parts) const override {
    if (piece.text.empty() || piece.text.front() == ' ') {
      parts.push_back(piece);
      return;
    }
    AlignedText& changed = store.emplace_back(piece, with_origins);
    changed.append(" ", 0, character_at(piece.text, 0).size);
    changed.append_source(0, piece.text.size());
    parts.push_back(changed.view());
  }
};

/// Bytes as the characters that stand for them.
class ByteCharacters : public WordStep {
 public:
  void split(const TextView& piece, TextStore& store, bool with_origins, std::vector<TextView>& parts) const override {
    AlignedText& changed = store.emplace_back(piece, with_origins);
    for (std::size_t i = 0; i < piece.text.size(); ++i) {
      changed.append(to_byte_characters(piece.text.substr(i, 1)), i, i + 1);
    }
    parts.push_back(changed.view());
  }
};

class Metaspace : public WordStep {
 public:
  explicit Metaspace(const Json& description)
      : replacement_(character_of(description, "replacement")), splits_(bool_of(description, "split", true)) {
    const bool adds_prefix = bool_of(description, "add_prefix_space", true);
    const std::string scheme = string_of(description, "prepend_scheme", adds_prefix ? "always" : "never");
    if (scheme != "always" && scheme != "first" && scheme != "never") {
      throw std::invalid_argument(fmt::format("the prepend_scheme {} is unknown", scheme));
    }
    if (!adds_prefix && scheme != "never") {
      throw std::invalid_argument("add_prefix_space is false, but prepend_scheme is " + scheme);
    }
    always_ = scheme == "always";
    first_ = scheme == "first";
  }

  void split(const TextView& piece, TextStore& store, bool with_origins, std::vector<TextView>& parts) const override {
    if (piece.text.empty()) return;
    AlignedText& changed = store.emplace_back(piece, with_origins);
    const bool has_prefix = piece.text.front() == ' ' || piece.text.starts_with(replacement_);
    if (!has_prefix && (always_ || (first_ && piece.at_input_begin))) {
      changed.append(replacement_, 0, character_at(piece.text, 0).size);
    }
    std::size_t done = 0;
    for (std::size_t blank = piece.text.find(' '); blank != std::string_view::npos;
         blank = piece.text.find(' ', done)) {
      changed.append_source(done, blank);
      changed.append(replacement_, blank, blank + 1);
      done = blank + 1;
    }
    changed.append_source(done, piece.text.size());
    const TextView view = changed.view();
    if (!splits_) {
      parts.push_back(view);
      return;
    }
    std::size_t begin = 0;
    for (std::size_t next = view.text.find(replacement_, 1); next != std::string_view::npos;
         next = view.text.find(replacement_, next + replacement_.size())) {
      parts.push_back(view.part(begin, next));
      begin = next;
    }
    parts.push_back(view.part(begin, view.text.size()));
  }

 private:
  std::string replacement_;
  bool splits_;
  bool always_ = false, first_ = false;
};

bool is_any_punctuation(char32_t c) { return is_ascii_punctuation(c) || is_punctuation(c); }

std::unique_ptr<const WordStep> make_split(const Json& description) {
  const SplitBehavior behavior = split_behavior_of(string_of(description, "behavior"));
  const bool invert = bool_of(description, "invert", false);
  const Json& pattern = field_of(description, "pattern");
  if (has_field(pattern, "String")) {
    return std::make_unique<SplitByLiteral>(string_of(pattern, "String"), behavior, invert);
  }
  const std::string expression = string_of(pattern, "Regex");
  // Matches that cover the text are all that there is, delimiters or not.
  const bool keeps_matches = behavior == SplitBehavior::isolated || (behavior == SplitBehavior::removed && invert);
  if (const WordCutter cutter = find_word_cutter(expression); cutter != nullptr && keeps_matches) {
    return std::make_unique<KnownPattern>(cutter);
  }
  try {
    return std::make_unique<SplitByRegex>(Regex(expression), behavior, invert);
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument("the regular expression of a Split cannot be used: " + std::string(error.what()));
  }
}

void append_byte_level(const Json& description, Steps& steps) {
  if (bool_of(description, "add_prefix_space", true)) steps.push_back(std::make_unique<PrefixSpace>());
  if (bool_of(description, "use_regex", true)) {
    steps.push_back(std::make_unique<KnownPattern>(find_word_cutter(gpt2_pattern)));
  }
  steps.push_back(std::make_unique<ByteCharacters>());
}

void append_steps(const Json& description, Steps& steps) {
  const std::string type = string_of(description, "type");
  const auto append_characters = [&steps](SplitByCharacter::Predicate predicate, SplitBehavior behavior) {
    steps.push_back(std::make_unique<SplitByCharacter>(predicate, behavior));
  };
  if (type == "Sequence") {
    for (const Json& part : array_of(description, "pretokenizers")) append_steps(part, steps);
  } else if (type == "ByteLevel") {
    append_byte_level(description, steps);
  } else if (type == "Split") {
    steps.push_back(make_split(description));
  } else if (type == "Metaspace") {
    steps.push_back(std::make_unique<Metaspace>(description));
  } else if (type == "Digits") {
    append_characters(is_number, bool_of(description, "individual_digits", false) ? SplitBehavior::isolated
                                                                                  : SplitBehavior::contiguous);
  } else if (type == "Punctuation") {
    append_characters(is_any_punctuation, split_behavior_of(string_of(description, "behavior", "Isolated")));
  } else if (type == "Whitespace") {
    steps.push_back(std::make_unique<Whitespace>());
  } else if (type == "WhitespaceSplit") {
    append_characters(is_space, SplitBehavior::removed);
  } else if (type == "CharDelimiterSplit") {
    steps.push_back(std::make_unique<SplitByLiteral>(character_of(description, "delimiter"), SplitBehavior::removed,
                                                     /*invert=*/false));
  } else if (type == "BertPreTokenizer") {
    append_characters(is_space, SplitBehavior::removed);
    append_characters(is_any_punctuation, SplitBehavior::isolated);
  } else {
    throw std::invalid_argument(fmt::format("the pre-tokenizer {} is not supported", type));
  }
}

}  // namespace

PreTokenizer::PreTokenizer(const Json& description) {
  if (description.is_null()) return;
  append_steps(description, steps_);
  // The model takes bytes for the characters that stand for them, so the last step need not write those.
  if (!steps_.empty() && dynamic_cast<const ByteCharacters*>(steps_.back().get()) != nullptr) {
    steps_.pop_back();
    yields_bytes_ = true;
  }
}

void PreTokenizer::cut(const TextView& text, TextStore& store, bool with_origins, std::vector<TextView>& words) const {
  words.assign(1, text);
  std::vector<TextView> parts;
  for (const auto& step : steps_) {
    parts.clear();
    for (const TextView& piece : words) {
      if (!piece.text.empty()) step->split(piece, store, with_origins, parts);
    }
    words.swap(parts);
  }
  std::erase_if(words, [](const TextView& word) { return word.text.empty(); });
}

}  // namespace sft::text
