// SPDX-License-Identifier: Apache-2.0
#pragma once
// How a text is cut into words, within which tokens are made: the "pre_tokenizer" of tokenizer.json.

#include <memory>
#include <string>
#include <vector>

#include "text/aligned_text.hpp"
#include "text/json_fields.hpp"

namespace sft::text {

/// One step of cutting.
class WordStep {
 public:
  virtual ~WordStep() = default;

  /// Appends the parts of `piece` to `parts`; new texts go to `store`. Parts may be empty.
  virtual void split(const TextView& piece, TextStore& store, bool with_origins,
                     std::vector<TextView>& parts) const = 0;
};

class PreTokenizer {
 public:
  /// Of null: one that cuts nothing. Throws std::invalid_argument with the reason if it is damaged or not supported.
  explicit PreTokenizer(const Json& description);

  /// Whether the words are bytes that stand for the characters of a byte-level vocabulary (byte_characters.hpp).
  [[nodiscard]] bool yields_bytes() const { return yields_bytes_; }

  /// Replaces `words` by those of `text`, none of them empty. Texts that its steps make go to `store`.
  void cut(const TextView& text, TextStore& store, bool with_origins, std::vector<TextView>& words) const;

 private:
  std::vector<std::unique_ptr<const WordStep>> steps_;
  bool yields_bytes_ = false;
};

}  // namespace sft::text
