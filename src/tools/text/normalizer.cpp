// SPDX-License-Identifier: Apache-2.0
#include "text/text_steps.hpp"

#include <fmt/core.h>
#include <algorithm>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "text/aligned_text.hpp"
#include "text/byte_characters.hpp"
#include "text/regex.hpp"
#include "text/unicode.hpp"
#include "text/utf8.hpp"

namespace sft::text {

namespace {

constexpr std::size_t max_parts = 64;

std::unique_ptr<const Normalizer> make_part(const Json& description);

class Sequence : public Normalizer {
 public:
  explicit Sequence(const Json& description) {
    for (const Json& part : array_of(description, "normalizers")) {
      if (!part.is_null()) parts_.push_back(make_part(part));
    }
  }

  TextView normalize(const TextView& text, TextStore& store, bool with_origins) const override {
    TextView normalized = text;
    AlignedText* of_former_part = nullptr;
    for (const auto& part : parts_) {
      const std::size_t size_before = store.size();
      normalized = part->normalize(normalized, store, with_origins);
      if (store.size() == size_before) continue;  // it is the same text, or a part of it
      if (of_former_part != nullptr) of_former_part->release();
      of_former_part = &store.back();
    }
    return normalized;
  }

 private:
  std::vector<std::unique_ptr<const Normalizer>> parts_;
};

class UnicodeForm : public Normalizer {
 public:
  explicit UnicodeForm(Form form) : form_(form) {}

  TextView normalize(const TextView& text, TextStore& store, bool with_origins) const override {
    return to_unicode_form(form_, text, store, with_origins);
  }

 private:
  Form form_;
};

/// What makes of each character none, one or several.
class EachCharacter : public Normalizer {
 public:
  using Change = std::function<void(std::string& replacement, std::string_view bytes, char32_t code_point)>;

  explicit EachCharacter(Change change) : change_(std::move(change)) {}

  TextView normalize(const TextView& text, TextStore& store, bool with_origins) const override {
    AlignedText& changed = store.emplace_back(text, with_origins);
    std::string replacement;
    for (std::size_t place = 0; place < text.text.size();) {
      const Character c = character_at(text.text, place);
      replacement.clear();
      change_(replacement, text.text.substr(place, c.size), c.code_point);
      changed.append(replacement, place, place + c.size);
      place += c.size;
    }
    return changed.view();
  }

 private:
  Change change_;
};

class Strip : public Normalizer {
 public:
  explicit Strip(const Json& description)
      : left_(bool_of(description, "strip_left", true)), right_(bool_of(description, "strip_right", true)) {}

  TextView normalize(const TextView& text, TextStore& /*store*/, bool /*with_origins*/) const override {
    std::size_t begin = 0, end = text.text.size();
    while (left_ && begin < end && is_space(character_at(text.text, begin).code_point)) {
      begin += character_at(text.text, begin).size;
    }
    while (right_ && end > begin && is_space(character_before(text.text, end).code_point)) {
      end -= character_before(text.text, end).size;
    }
    return text.part(begin, end);
  }

 private:
  bool left_, right_;
};

class Prepend : public Normalizer {
 public:
  explicit Prepend(const Json& description) : prefix_(string_of(description, "prepend")) {}

  TextView normalize(const TextView& text, TextStore& store, bool with_origins) const override {
    if (text.text.empty()) return text;
    AlignedText& changed = store.emplace_back(text, with_origins);
    changed.append(prefix_, 0, character_at(text.text, 0).size);
    changed.append_source(0, text.text.size());
    return changed.view();
  }

 private:
  std::string prefix_;
};

class Replace : public Normalizer {
 public:
  explicit Replace(const Json& description) : content_(string_of(description, "content")) {
    const Json& pattern = field_of(description, "pattern");
    if (has_field(pattern, "String")) {
      literal_ = string_of(pattern, "String");
      if (literal_.empty()) throw std::invalid_argument("a Replace has an empty pattern");
    } else {
      regex_.emplace(string_of(pattern, "Regex"));
      check_replacement(*regex_, content_);
    }
  }

  TextView normalize(const TextView& text, TextStore& store, bool with_origins) const override {
    std::vector<ByteRange> matches;
    if (regex_) {
      regex_->find_all(text.text, matches);
    } else {
      for (std::size_t place = text.text.find(literal_); place != std::string_view::npos;
           place = text.text.find(literal_, place + literal_.size())) {
        matches.push_back({place, place + literal_.size()});
      }
    }
    if (matches.empty()) return text;
    AlignedText& changed = store.emplace_back(text, with_origins);
    std::size_t done = 0;
    for (const ByteRange& match : matches) {
      changed.append_source(done, match.begin);
      changed.append(content_, match.begin, match.end);
      done = match.end;
    }
    changed.append_source(done, text.text.size());
    return changed.view();
  }

 private:
  std::string literal_;
  std::optional<Regex> regex_;
  std::string content_;
};

/// Normalizers that are not made of others.
std::size_t count_parts(const Json& description) {
  if (!description.is_object() || !has_field(description, "normalizers")) return 1;
  std::size_t count = 0;
  for (const Json& part : array_of(description, "normalizers")) count += count_parts(part);
  return count;
}

std::unique_ptr<const Normalizer> make_part(const Json& description) {
  const std::string type = string_of(description, "type");
  if (type == "Sequence") return std::make_unique<Sequence>(description);
  if (type == "NFC") return std::make_unique<UnicodeForm>(Form::nfc);
  if (type == "NFD") return std::make_unique<UnicodeForm>(Form::nfd);
  if (type == "NFKC") return std::make_unique<UnicodeForm>(Form::nfkc);
  if (type == "NFKD") return std::make_unique<UnicodeForm>(Form::nfkd);
  if (type == "Strip") return std::make_unique<Strip>(description);
  if (type == "Prepend") return std::make_unique<Prepend>(description);
  if (type == "Replace") return std::make_unique<Replace>(description);
  if (type == "Lowercase") {
    return std::make_unique<EachCharacter>(
        [](std::string& replacement, std::string_view, char32_t c) { append_lower_case(replacement, c); });
  }
  if (type == "StripAccents") {
    return std::make_unique<EachCharacter>([](std::string& replacement, std::string_view bytes, char32_t c) {
      if (!is_mark(c)) replacement = bytes;
    });
  }
  if (type == "ByteLevel") {
    return std::make_unique<EachCharacter>(
        [](std::string& replacement, std::string_view bytes, char32_t) { replacement = to_byte_characters(bytes); });
  }
  throw std::invalid_argument(fmt::format("the normalizer {} is not supported", type));
}

}  // namespace

std::unique_ptr<const Normalizer> make_normalizer(const Json& description) {
  if (description.is_null()) return nullptr;
  if (count_parts(description) > max_parts) {
    throw std::invalid_argument(fmt::format("the normalizer has more than {} parts", max_parts));
  }
  return make_part(description);
}

}  // namespace sft::text
