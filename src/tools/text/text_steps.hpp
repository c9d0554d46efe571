// SPDX-License-Identifier: Apache-2.0
#pragma once
// The steps on the way from a text to tokens and back, but for the model: normalizer, pre_tokenizer, post_processor and
// decoder of tokenizer.json.

#include <memory>
#include <string>
#include <vector>

#include "sft/text/tokenizer.hpp"
#include "text/aligned_text.hpp"
#include "text/json_fields.hpp"

namespace sft::text {

/// The "normalizer": changes a text before it is cut.
class Normalizer {
 public:
  virtual ~Normalizer() = default;

  /// The normalized text: `text` itself where nothing changes, otherwise a new one in `store`.
  [[nodiscard]] virtual TextView normalize(const TextView& text, TextStore& store, bool with_origins) const = 0;
};

/// Reads the "normalizer" of tokenizer.json; null for null. Throws std::invalid_argument with the reason if it is
/// damaged or not supported.
[[nodiscard]] std::unique_ptr<const Normalizer> make_normalizer(const Json& description);

/// One step of a PreTokenizer.
class WordStep {
 public:
  virtual ~WordStep() = default;

  /// Appends the parts of `piece` to `parts`; new texts go to `store`. Parts may be empty.
  virtual void split(const TextView& piece, TextStore& store, bool with_origins,
                     std::vector<TextView>& parts) const = 0;
};

/// The "pre_tokenizer": cuts a text into words, within which tokens are made.
class PreTokenizer {
 public:
  /// Reads the "pre_tokenizer" of tokenizer.json; null cuts nothing. Throws std::invalid_argument with the reason if it
  /// is damaged or not supported.
  explicit PreTokenizer(const Json& description);

  /// Whether the words are bytes that stand for the characters of a byte-level vocabulary (byte_characters.hpp).
  [[nodiscard]] bool yields_bytes() const { return yields_bytes_; }

  /// Replaces `words` by those of `text`, none of them empty. Texts that its steps make go to `store`.
  void cut(const TextView& text, TextStore& store, bool with_origins, std::vector<TextView>& words) const;

 private:
  std::vector<std::unique_ptr<const WordStep>> steps_;
  bool yields_bytes_ = false;
};

/// The "post_processor": tokens that are put around those of a text.
struct PostProcessor {
  std::vector<TokenId> before;
  std::vector<TokenId> after;
};

/// What the "post_processor" of tokenizer.json puts around a text; nothing for null. Throws std::invalid_argument with
/// the reason if it is damaged or not supported.
[[nodiscard]] PostProcessor make_post_processor(const Json& description);

/// The "decoder": makes text of the names of tokens.
class Decoder {
 public:
  virtual ~Decoder() = default;

  /// Turns names into parts of the text, well-formed UTF-8, perhaps of another number.
  virtual void decode(std::vector<std::string>& parts) const = 0;
};

/// Reads the "decoder" of tokenizer.json; null for null: the names are then joined with blanks. Throws
/// std::invalid_argument with the reason if it is damaged or not supported.
[[nodiscard]] std::unique_ptr<const Decoder> make_decoder(const Json& description);

}  // namespace sft::text
