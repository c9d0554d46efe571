// SPDX-License-Identifier: Apache-2.0
#pragma once
// Texts on their way from the input to tokens, and where in the input their bytes come from.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "sft/text/tokenizer.hpp"

namespace sft::text {

/// A part of a text that lives elsewhere, well-formed UTF-8. Its bytes are either those of the input from `input_begin`
/// on, or those of an AlignedText.
struct TextView {
  std::string_view text;
  const ByteRange* origins = nullptr;  ///< one per byte, in the input; null: the bytes of the input themselves
  std::size_t input_begin = 0;         ///< used where `origins` is null
  bool at_input_begin = false;         ///< its first byte comes from the first one of the input
  std::size_t max_bytes = 0;           ///< what may become of it, in all steps together; 0: it is of the input

  [[nodiscard]] TextView part(std::size_t begin, std::size_t end) const {
    return {text.substr(begin, end - begin), origins == nullptr ? nullptr : origins + begin, input_begin + begin,
            at_input_begin && begin == 0, max_bytes};
  }
  /// The characters of the input that bytes [begin, end) come from, begin <= end.
  [[nodiscard]] ByteRange origin(std::size_t begin, std::size_t end) const;
};

/// A text that was made from another one. Whoever wants no offsets makes it without origins.
class AlignedText {
 public:
  /// From a part of the input: ill-formed parts become U+FFFD.
  static AlignedText repaired(std::string_view input, bool with_origins);

  /// An empty text that replaces `source`.
  AlignedText(const TextView& source, bool with_origins);

  /// Bytes [begin, end) of the source as they are.
  void append_source(std::size_t begin, std::size_t end);
  /// New bytes, all of which stand for bytes [begin, end) of the source. A data Error when they make the text far
  /// longer than what of the input it was made of, however many steps there were between them.
  void append(std::string_view bytes, std::size_t begin, std::size_t end);

  [[nodiscard]] TextView view() const;
  /// Gives its memory back; its views end.
  void release();

 private:
  void append_from(std::string_view bytes, ByteRange origin);
  void note_begin(std::size_t size, std::size_t source_begin);

  TextView source_;
  std::size_t max_bytes_;
  bool with_origins_;
  bool begins_with_source_ = true;  ///< its first byte stands for the first one of the source
  std::string text_;
  std::vector<ByteRange> origins_;
};

/// Keeps texts alive, at places that do not change, until the tokens are made.
using TextStore = std::deque<AlignedText>;

/// The normal forms of Unicode.
enum class Form : std::uint8_t { nfc, nfd, nfkc, nfkd };

/// `text` itself where it has the form, otherwise a new text in `store`. Characters younger than Unicode 9 stay as they
/// are: so the library whose ids we give has it.
[[nodiscard]] TextView to_unicode_form(Form form, const TextView& text, TextStore& store, bool with_origins);

}  // namespace sft::text
