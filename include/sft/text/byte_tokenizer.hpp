// SPDX-License-Identifier: Apache-2.0
#pragma once
// One token per byte: needs no file, knows every text.

#include "sft/text/tokenizer.hpp"

namespace sft::text {

/// Ids 0 to 255 are the bytes, 256 to 271 the special tokens: <|pad|> <|bos|> <|eos|> <|im_start|> <|im_end|> and
/// reserved ones, so that the vocabulary of 272 divides by 16.
class ByteTokenizer : public Tokenizer {
 public:
  using Tokenizer::encode;
  [[nodiscard]] const std::string& name() const override;
  [[nodiscard]] const std::string& fingerprint() const override;
  [[nodiscard]] std::int64_t vocab_size() const override;
  [[nodiscard]] const SpecialTokens& specials() const override;
  /// Only special tokens have names.
  [[nodiscard]] std::optional<TokenId> id_of(std::string_view token) const override;
  [[nodiscard]] std::string token_of(TokenId id) const override;
  [[nodiscard]] bool is_special(TokenId id) const override;
  /// Puts nothing around a text.
  [[nodiscard]] std::vector<TokenId> encode(std::string_view text, const EncodeOptions& options) const override;
  /// A byte is a place of its own, also within a character.
  [[nodiscard]] Encoding encode_with_offsets(std::string_view text, const EncodeOptions& options) const override;
  /// The bytes of a cut character stay as they are.
  [[nodiscard]] std::string decode(std::span<const TokenId> ids, bool skip_special_tokens = false) const override;
};

}  // namespace sft::text
