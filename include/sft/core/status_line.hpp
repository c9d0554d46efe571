// SPDX-License-Identifier: Apache-2.0
#pragma once
// A line of a terminal that is redrawn in place: how far a program has come.

#include <cstdio>
#include <string>

namespace sft {

/// Nothing is ever drawn on an invisible one. Other output to the same terminal comes after clear().
class StatusLine {
 public:
  /// `stream` outlives the object.
  StatusLine(std::FILE* stream, bool is_visible) : stream_(stream), is_visible_(is_visible) {}
  ~StatusLine() { clear(); }
  StatusLine(const StatusLine&) = delete;
  StatusLine& operator=(const StatusLine&) = delete;

  [[nodiscard]] bool is_visible() const { return is_visible_; }
  /// Draws `text` in place of what stands there.
  void show(const std::string& text) {
    if (!is_visible_) return;
    std::fputs(erase_line, stream_);
    std::fputs(text.c_str(), stream_);
    std::fflush(stream_);
    is_drawn_ = true;
  }
  /// Takes the line away.
  void clear() {
    if (!is_drawn_) return;
    std::fputs(erase_line, stream_);
    std::fflush(stream_);
    is_drawn_ = false;
  }

 private:
  static constexpr const char* erase_line = "\r\033[K";

  std::FILE* stream_;
  bool is_visible_;
  bool is_drawn_ = false;
};

}  // namespace sft
