// SPDX-License-Identifier: Apache-2.0
#include "text/text_steps.hpp"

#include <fmt/core.h>
#include <algorithm>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "sft/core/error.hpp"
#include "text/byte_characters.hpp"
#include "text/regex.hpp"
#include "text/utf8.hpp"

namespace sft::text {

namespace {

constexpr std::size_t max_decoded_bytes = std::size_t{256} << 20;

std::string join(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) text += part;
  return text;
}

class Sequence : public Decoder {
 public:
  explicit Sequence(const Json& description) {
    for (const Json& part : array_of(description, "decoders")) {
      if (auto decoder = make_decoder(part)) decoders_.push_back(std::move(decoder));
    }
  }

  void decode(std::vector<std::string>& parts) const override {
    for (const auto& decoder : decoders_) decoder->decode(parts);
  }

 private:
  std::vector<std::unique_ptr<const Decoder>> decoders_;
};

/// Characters to the bytes that they stand for. A name with any other character is its own text.
class ByteLevel : public Decoder {
 public:
  void decode(std::vector<std::string>& parts) const override {
    std::string bytes;
    for (const std::string& part : parts) bytes += bytes_of(part).value_or(part);
    parts.assign(1, replace_ill_formed(bytes));
  }

 private:
  static std::optional<std::string> bytes_of(const std::string& name) {
    std::string bytes;
    for (std::size_t place = 0; place < name.size();) {
      const Character c = character_at(name, place);
      const std::optional<unsigned char> byte = byte_of_character(c.code_point);
      if (!byte) return std::nullopt;
      bytes.push_back(static_cast<char>(*byte));
      place += c.size;
    }
    return bytes;
  }
};

/// Runs of "<0xE2>" to the characters that their bytes spell; bytes that spell none to one U+FFFD each.
class ByteFallback : public Decoder {
 public:
  void decode(std::vector<std::string>& parts) const override {
    std::vector<std::string> decoded;
    std::string bytes;
    const auto flush = [&] {
      if (bytes.empty()) return;
      if (well_formed_size(bytes) == bytes.size()) {
        decoded.push_back(bytes);
      } else {
        decoded.insert(decoded.end(), bytes.size(), std::string(replacement_character));
      }
      bytes.clear();
    };
    for (const std::string& part : parts) {
      if (const std::optional<char> byte = byte_of(part)) {
        bytes.push_back(*byte);
      } else {
        flush();
        decoded.push_back(part);
      }
    }
    flush();
    parts = std::move(decoded);
  }

 private:
  static std::optional<char> byte_of(std::string_view name) {
    if (name.size() != 6 || !name.starts_with("<0x") || name.back() != '>') return std::nullopt;
    unsigned value = 0;
    for (const char digit : name.substr(3, 2)) {
      constexpr std::string_view digits = "0123456789abcdef";
      const std::size_t found =
          digits.find(digit >= 'A' && digit <= 'F' ? static_cast<char>(digit - 'A' + 'a') : digit);
      if (found == std::string_view::npos) return std::nullopt;
      value = 16 * value + static_cast<unsigned>(found);
    }
    return static_cast<char>(value);
  }
};

class Fuse : public Decoder {
 public:
  void decode(std::vector<std::string>& parts) const override { parts.assign(1, join(parts)); }
};

/// Takes a character from the ends of each part, at most so many times.
class Strip : public Decoder {
 public:
  explicit Strip(const Json& description)
      : character_(character_of(description, "content")),
        num_at_begin_(number_of(field_of(description, "start"), "start")),
        num_at_end_(number_of(field_of(description, "stop"), "stop")) {}

  void decode(std::vector<std::string>& parts) const override {
    for (std::string& part : parts) {
      for (std::int32_t i = 0; i < num_at_begin_ && part.starts_with(character_); ++i) part.erase(0, character_.size());
      for (std::int32_t i = 0; i < num_at_end_ && part.ends_with(character_); ++i) {
        part.resize(part.size() - character_.size());
      }
    }
  }

 private:
  std::string character_;
  std::int32_t num_at_begin_, num_at_end_;
};

class Replace : public Decoder {
 public:
  explicit Replace(const Json& description) : content_(string_of(description, "content")) {
    const Json& pattern = field_of(description, "pattern");
    if (has_field(pattern, "Regex")) {
      regex_.emplace(string_of(pattern, "Regex"));
      check_replacement(*regex_, content_);
      return;
    }
    literal_ = string_of(pattern, "String");
    if (literal_.empty()) throw std::invalid_argument("a Replace has an empty pattern");
  }

  void decode(std::vector<std::string>& parts) const override {
    std::vector<ByteRange> matches;
    std::size_t num_bytes = 0;
    for (std::string& part : parts) {
      find(part, matches);
      num_bytes += part.size() + matches.size() * content_.size();
      if (num_bytes > max_decoded_bytes) {
        throw_data_error("a text of tokens grows beyond 256 MiB", "the decoder of its tokenizer makes it so long",
                         "check the decoder of tokenizer.json");
      }
      for (auto match = matches.rbegin(); match != matches.rend(); ++match) {
        part.replace(match->begin, match->end - match->begin, content_);
      }
    }
  }

 private:
  void find(const std::string& part, std::vector<ByteRange>& matches) const {
    if (regex_) return regex_->find_all(part, matches);
    matches.clear();
    for (std::size_t place = part.find(literal_); place != std::string::npos;
         place = part.find(literal_, place + literal_.size())) {
      matches.push_back({place, place + literal_.size()});
    }
  }

  std::string literal_;
  std::optional<Regex> regex_;
  std::string content_;
};

/// The character that stands for a blank to blanks, and to nothing in the first part if one was put before the text.
class Metaspace : public Decoder {
 public:
  explicit Metaspace(const Json& description)
      : replacement_(character_of(description, "replacement")),
        has_prefix_(string_of(description, "prepend_scheme",
                              bool_of(description, "add_prefix_space", true) ? "always" : "never") != "never") {}

  void decode(std::vector<std::string>& parts) const override {
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const std::string_view blank = i == 0 && has_prefix_ ? "" : " ";
      for (std::size_t place = parts[i].find(replacement_); place != std::string::npos;
           place = parts[i].find(replacement_, place + blank.size())) {
        parts[i].replace(place, replacement_.size(), blank);
      }
    }
  }

 private:
  std::string replacement_;
  bool has_prefix_;
};

/// The suffix that ends words to a blank, and to nothing in the last part.
class WordSuffix : public Decoder {
 public:
  explicit WordSuffix(const Json& description) : suffix_(string_of(description, "suffix", "</w>")) {
    if (suffix_.empty()) throw std::invalid_argument("a BPEDecoder has an empty suffix");
  }

  void decode(std::vector<std::string>& parts) const override {
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const std::string_view blank = i + 1 == parts.size() ? "" : " ";
      for (std::size_t place = parts[i].find(suffix_); place != std::string::npos;
           place = parts[i].find(suffix_, place + blank.size())) {
        parts[i].replace(place, suffix_.size(), blank);
      }
    }
  }

 private:
  std::string suffix_;
};

}  // namespace

std::unique_ptr<const Decoder> make_decoder(const Json& description) {
  if (description.is_null()) return nullptr;
  const std::string type = string_of(description, "type");
  if (type == "Sequence") return std::make_unique<Sequence>(description);
  if (type == "ByteLevel") return std::make_unique<ByteLevel>();
  if (type == "ByteFallback") return std::make_unique<ByteFallback>();
  if (type == "Fuse") return std::make_unique<Fuse>();
  if (type == "Strip") return std::make_unique<Strip>(description);
  if (type == "Replace") return std::make_unique<Replace>(description);
  if (type == "Metaspace") return std::make_unique<Metaspace>(description);
  if (type == "BPEDecoder") return std::make_unique<WordSuffix>(description);
  throw std::invalid_argument(fmt::format("the decoder {} is not supported", type));
}

}  // namespace sft::text
