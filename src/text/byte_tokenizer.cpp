// SPDX-License-Identifier: Apache-2.0
#include "sft/text/byte_tokenizer.hpp"

#include <algorithm>
#include <array>

#include "sft/core/error.hpp"

namespace sft::text {

namespace {

constexpr TokenId num_bytes = 256;

/// Names of the ids from 256 on.
constexpr std::array<std::string_view, 16> special_names = {
    "<|pad|>",        "<|bos|>",        "<|eos|>",        "<|im_start|>",   "<|im_end|>",     "<|reserved_0|>",
    "<|reserved_1|>", "<|reserved_2|>", "<|reserved_3|>", "<|reserved_4|>", "<|reserved_5|>", "<|reserved_6|>",
    "<|reserved_7|>", "<|reserved_8|>", "<|reserved_9|>", "<|reserved_10|>"};

constexpr TokenId id_of(std::string_view name) {
  const auto found = std::find(special_names.begin(), special_names.end(), name);
  return num_bytes + static_cast<TokenId>(found - special_names.begin());
}

constexpr SpecialTokens special_ids = {.bos = id_of("<|bos|>"),
                                       .eos = id_of("<|eos|>"),
                                       .pad = id_of("<|pad|>"),
                                       .turn_begin = id_of("<|im_start|>"),
                                       .turn_end = id_of("<|im_end|>")};

}  // namespace

const std::string& ByteTokenizer::name() const {
  static const std::string name = "byte";
  return name;
}

std::int64_t ByteTokenizer::vocab_size() const { return num_bytes + static_cast<TokenId>(special_names.size()); }

const SpecialTokens& ByteTokenizer::specials() const { return special_ids; }

std::vector<TokenId> ByteTokenizer::encode(std::string_view text) const {
  std::vector<TokenId> ids(text.size());
  std::transform(text.begin(), text.end(), ids.begin(), [](char c) { return static_cast<unsigned char>(c); });
  return ids;
}

std::vector<TokenId> ByteTokenizer::encode_markup(std::string_view text) const {
  std::vector<TokenId> ids;
  while (!text.empty()) {
    const auto special = std::find_if(special_names.begin(), special_names.end(),
                                      [&](std::string_view name) { return text.starts_with(name); });
    if (special != special_names.end()) {
      ids.push_back(id_of(*special));
      text.remove_prefix(special->size());
    } else {
      ids.push_back(static_cast<unsigned char>(text.front()));
      text.remove_prefix(1);
    }
  }
  return ids;
}

std::string ByteTokenizer::decode(std::span<const TokenId> ids) const {
  std::string text;
  for (const TokenId id : ids) {
    ensure(id >= 0 && id < vocab_size(), "a token id lies in the vocabulary");
    if (id < num_bytes) {
      text.push_back(static_cast<char>(id));
    } else {
      text += special_names[static_cast<std::size_t>(id - num_bytes)];
    }
  }
  return text;
}

}  // namespace sft::text
