// SPDX-License-Identifier: Apache-2.0
#pragma once
// Text to token ids and back.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sft::text {

using TokenId = std::int32_t;

/// The tokens that stand for no text of their own.
struct SpecialTokens {
  TokenId bos = 0;
  TokenId eos = 0;
  TokenId pad = 0;
  TokenId turn_begin = 0;  ///< <|im_start|> of ChatML
  TokenId turn_end = 0;    ///< <|im_end|> of ChatML
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// What make_tokenizer() takes, and what packed shards and checkpoints record.
  [[nodiscard]] virtual const std::string& name() const = 0;
  /// Number of ids, reserved ones included.
  [[nodiscard]] virtual std::int64_t vocab_size() const = 0;
  [[nodiscard]] virtual const SpecialTokens& specials() const = 0;

  /// Ids of plain text. Never yields a special token, whatever the text spells: data cannot forge the end of a turn.
  [[nodiscard]] virtual std::vector<TokenId> encode(std::string_view text) const = 0;
  /// Ids of text in which the names of special tokens ("<|im_end|>") stand for those tokens.
  [[nodiscard]] virtual std::vector<TokenId> encode_markup(std::string_view text) const = 0;
  /// Text of ids in [0, vocab_size); special tokens come out by name. The bytes of a cut character stay as they are.
  [[nodiscard]] virtual std::string decode(std::span<const TokenId> ids) const = 0;
};

/// The tokenizer of that name ("byte"); a configuration Error lists the names otherwise.
[[nodiscard]] std::unique_ptr<Tokenizer> make_tokenizer(const std::string& name);

}  // namespace sft::text
