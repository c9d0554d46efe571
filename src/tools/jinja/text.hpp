// SPDX-License-Identifier: Apache-2.0
#pragma once
// Strings that remember where every byte comes from.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "jinja/heap.hpp"

namespace sft::jinja {

/// The origin of a byte; -1 where there is none.
struct Tag {
  std::int32_t source = -1;      ///< index into Rendered::sources
  std::int32_t turn = -1;        ///< message whose iteration made it
  std::int32_t generation = -1;  ///< number of the `generation` block that wrote it
  friend bool operator==(const Tag&, const Tag&) = default;
};

/// Bytes with one tag, up to `end`.
struct Run {
  std::size_t end = 0;
  Tag tag;
};

/// An immutable string (UTF-8).
struct Text {
  Text(Heap* heap, std::string text, std::vector<Run> tagged_runs, bool markup);

  Charge charge;
  std::string bytes;
  std::vector<Run> runs;  ///< cover the bytes in order; neighbours differ, none is empty
  bool is_markup;         ///< a string that HTML escaping takes for finished (Python's Markup)
};

using TextRef = std::shared_ptr<const Text>;

/// Collects a string piece by piece. What it holds counts against the heap.
class TextBuilder {
 public:
  explicit TextBuilder(Heap* heap) : heap_(heap) {}
  ~TextBuilder() {
    if (heap_ != nullptr) heap_->release(charged_bytes_);
  }
  TextBuilder(const TextBuilder&) = delete;
  TextBuilder& operator=(const TextBuilder&) = delete;

  void append(std::string_view bytes, const Tag& tag = {});
  void append(const Text& text) { append(text, 0, text.bytes.size()); }
  /// Bytes [begin, end) of `text`.
  void append(const Text& text, std::size_t begin, std::size_t end);
  /// Appends `text`, written in the turn `turn`: it takes the place of the turns of the text if `is_written`, else it
  /// is given to bytes that have none. -1 changes nothing.
  void append_in_turn(const Text& text, std::int32_t turn, bool is_written);
  /// Bytes from `begin` on were written by that `generation` block.
  void mark_generation(std::size_t begin, std::int32_t generation);

  [[nodiscard]] std::size_t size() const { return bytes_.size(); }
  [[nodiscard]] const std::string& bytes() const { return bytes_; }
  [[nodiscard]] const std::vector<Run>& runs() const { return runs_; }
  /// What was collected, as a string; empties the builder.
  [[nodiscard]] TextRef take(bool is_markup = false);

 private:
  void grow(std::size_t bytes);
  void push_run(std::size_t end, const Tag& tag);

  Heap* heap_;
  std::string bytes_;
  std::vector<Run> runs_;
  std::size_t charged_bytes_ = 0;
};

/// A string of one origin.
[[nodiscard]] TextRef make_text(Heap* heap, std::string_view bytes, const Tag& tag = {}, bool is_markup = false);
/// Bytes [begin, end) of `text`, which keep their origin.
[[nodiscard]] TextRef cut_text(Heap* heap, const TextRef& text, std::size_t begin, std::size_t end);

/// The origin of the byte at `position`; no origin at the end of an empty text.
[[nodiscard]] Tag tag_at(const Text& text, std::size_t position);

}  // namespace sft::jinja
