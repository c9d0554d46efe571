// SPDX-License-Identifier: Apache-2.0
#include "sft/text/byte_tokenizer.hpp"

#include <algorithm>
#include <array>

#include "sft/core/ensure.hpp"

namespace sft::text {

namespace {

constexpr TokenId num_bytes = 256;

/// Names of the ids from 256 on.
constexpr std::array<std::string_view, 16> special_names = {
    "<|pad|>",        "<|bos|>",        "<|eos|>",        "<|im_start|>",   "<|im_end|>",     "<|reserved_0|>",
    "<|reserved_1|>", "<|reserved_2|>", "<|reserved_3|>", "<|reserved_4|>", "<|reserved_5|>", "<|reserved_6|>",
    "<|reserved_7|>", "<|reserved_8|>", "<|reserved_9|>", "<|reserved_10|>"};

/// Past the vocabulary for any other name.
constexpr TokenId id_of_name(std::string_view name) {
  const auto found = std::find(special_names.begin(), special_names.end(), name);
  return num_bytes + static_cast<TokenId>(found - special_names.begin());
}

/// Callers put special tokens around a text that may be as long as a book: it need not move for them.
constexpr std::size_t room_for_ends = 16;

/// Calls take(id, bytes of the text) for each token.
template <class Take>
void for_each_token(std::string_view text, const EncodeOptions& options, const Take& take) {
  for (std::size_t place = 0; place < text.size();) {
    const std::string_view rest = text.substr(place);
    const auto special = options.split_special_tokens
                             ? special_names.end()
                             : std::find_if(special_names.begin(), special_names.end(),
                                            [rest](std::string_view name) { return rest.starts_with(name); });
    const bool is_special = special != special_names.end();
    const std::size_t size = is_special ? special->size() : 1;
    take(is_special ? id_of_name(*special) : static_cast<unsigned char>(rest.front()), ByteRange{place, place + size});
    place += size;
  }
}

constexpr SpecialTokens special_ids = {
    .bos = id_of_name("<|bos|>"), .eos = id_of_name("<|eos|>"), .pad = id_of_name("<|pad|>"), .unk = std::nullopt};

}  // namespace

const std::string& ByteTokenizer::name() const {
  static const std::string name = "byte";
  return name;
}

const std::string& ByteTokenizer::fingerprint() const { return name(); }

std::int64_t ByteTokenizer::vocab_size() const { return num_bytes + static_cast<TokenId>(special_names.size()); }

const SpecialTokens& ByteTokenizer::specials() const { return special_ids; }

std::optional<TokenId> ByteTokenizer::id_of(std::string_view token) const {
  const TokenId id = id_of_name(token);
  return id < vocab_size() ? std::optional(id) : std::nullopt;
}

std::string ByteTokenizer::token_of(TokenId id) const {
  return is_special(id) ? std::string(special_names[id - num_bytes]) : "";
}

bool ByteTokenizer::is_special(TokenId id) const { return id >= num_bytes && id < vocab_size(); }

std::vector<TokenId> ByteTokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  std::vector<TokenId> ids;
  ids.reserve(text.size() + room_for_ends);
  for_each_token(text, options, [&](TokenId id, ByteRange /*range*/) { ids.push_back(id); });
  return ids;
}

Encoding ByteTokenizer::encode_with_offsets(std::string_view text, const EncodeOptions& options) const {
  Encoding encoding;
  encoding.ids.reserve(text.size());
  encoding.offsets.reserve(text.size());
  for_each_token(text, options, [&](TokenId id, ByteRange range) {
    encoding.ids.push_back(id);
    encoding.offsets.push_back(range);
  });
  return encoding;
}

std::string ByteTokenizer::decode(std::span<const TokenId> ids, bool skip_special_tokens) const {
  std::string text;
  for (const TokenId id : ids) {
    SFT_ENSURE(id >= 0, "a token id lies in the vocabulary");
    SFT_ENSURE(id < vocab_size(), "a token id lies in the vocabulary");
    if (id < num_bytes) {
      text.push_back(static_cast<char>(id));
    } else if (!skip_special_tokens) {
      text += special_names[id - num_bytes];
    }
  }
  return text;
}

}  // namespace sft::text
