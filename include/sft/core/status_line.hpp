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
  void show(const std::string& text);
  /// Takes the line away.
  void clear();

 private:
  std::FILE* stream_;
  bool is_visible_;
  bool is_drawn_ = false;
};

}  // namespace sft
