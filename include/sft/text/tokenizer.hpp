// SPDX-License-Identifier: Apache-2.0
#pragma once
// Text to token ids and back.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sft::text {

using TokenId = std::int32_t;

/// The tokens that the roles of tokenizer_config.json name; none where it names none.
struct SpecialTokens {
  std::optional<TokenId> bos;
  std::optional<TokenId> eos;
  std::optional<TokenId> pad;
  std::optional<TokenId> unk;
};

/// Bytes [begin, end) of a text.
struct ByteRange {
  std::size_t begin = 0;
  std::size_t end = 0;

  bool operator==(const ByteRange&) const = default;
};

struct Encoding {
  std::vector<TokenId> ids;
  /// One per id: the characters of the text that it stands for. A token that holds a part of a character covers all of
  /// it, so neighbours may share one; blanks count. A token that stands for no text has an empty range, at 0 or at the
  /// end of the text.
  std::vector<ByteRange> offsets;
};

/// What encoding does with special tokens, under the names of transformers.
struct EncodeOptions {
  bool add_special_tokens = false;    ///< what the tokenizer puts around a text: <s> before it, say
  bool split_special_tokens = false;  ///< the name of a special token in the text is plain text, not that token
};

/// All members may be called by several threads at once.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// What make_tokenizer() takes: "byte", or the folder of a model.
  [[nodiscard]] virtual const std::string& name() const = 0;
  /// Equal for two tokenizers that make the same ids of every text, wherever they lie: "byte", or a hash over
  /// vocabulary, merges, added tokens and every rule on the way from text to ids. Neither the decoder nor the choice of
  /// `specials` is in it.
  [[nodiscard]] virtual const std::string& fingerprint() const = 0;
  /// The highest id plus one. An embedding may have more rows, never fewer.
  [[nodiscard]] virtual std::int64_t vocab_size() const = 0;
  [[nodiscard]] virtual const SpecialTokens& specials() const = 0;
  /// The id of a token by its name, as in the file of the vocabulary ("<|im_end|>", "Ġthe"); none if there is none.
  [[nodiscard]] virtual std::optional<TokenId> id_of(std::string_view token) const = 0;
  /// The name of a token; empty where `id` lies outside the vocabulary or in a hole of it.
  [[nodiscard]] virtual std::string token_of(TokenId id) const = 0;
  /// Whether decode() leaves it out when it skips special tokens.
  [[nodiscard]] virtual bool is_special(TokenId id) const = 0;

  [[nodiscard]] virtual std::vector<TokenId> encode(std::string_view text, const EncodeOptions& options) const = 0;
  /// The ids that encode() gives, with the places that they come from.
  [[nodiscard]] virtual Encoding encode_with_offsets(std::string_view text, const EncodeOptions& options) const = 0;
  /// Text of ids in [0, vocab_size). Special tokens come out by name, or not at all with `skip_special_tokens`.
  [[nodiscard]] virtual std::string decode(std::span<const TokenId> ids, bool skip_special_tokens = false) const = 0;

  /// Ids of plain text: never a special token, whatever the text spells, so data cannot forge the end of a turn.
  [[nodiscard]] std::vector<TokenId> encode(std::string_view text) const;
  /// Ids of text in which the names of special tokens ("<|im_end|>") stand for those tokens.
  [[nodiscard]] std::vector<TokenId> encode_markup(std::string_view text) const;

  /// The token that ends a text; a configuration Error where the tokenizer names none.
  [[nodiscard]] TokenId eos() const;
  /// The token that fills rows: the pad token, or where none is named the one that ends a text.
  [[nodiscard]] TokenId pad() const;
};

/// "byte", or load_tokenizer() of that folder. A configuration Error says what there is otherwise.
[[nodiscard]] std::unique_ptr<Tokenizer> make_tokenizer(const std::string& name);

}  // namespace sft::text
