// SPDX-License-Identifier: Apache-2.0
#pragma once
// One token per byte: needs no file, knows every text.

#include "sft/text/tokenizer.hpp"

namespace sft::text {

/// Ids 0 to 255 are the bytes, 256 to 271 the special tokens: <|pad|> <|bos|> <|eos|> <|im_start|> <|im_end|> and
/// reserved ones, so that the vocabulary of 272 divides by 16.
class ByteTokenizer : public Tokenizer {
 public:
  [[nodiscard]] const std::string& name() const override;
  [[nodiscard]] std::int64_t vocab_size() const override;
  [[nodiscard]] const SpecialTokens& specials() const override;
  [[nodiscard]] std::vector<TokenId> encode(std::string_view text) const override;
  [[nodiscard]] std::vector<TokenId> encode_markup(std::string_view text) const override;
  [[nodiscard]] std::string decode(std::span<const TokenId> ids) const override;
};

}  // namespace sft::text
