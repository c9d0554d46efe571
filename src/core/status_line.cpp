// SPDX-License-Identifier: Apache-2.0
#include "sft/core/status_line.hpp"

namespace sft {

namespace {

constexpr const char* erase_line = "\r\033[K";

}  // namespace

void StatusLine::show(const std::string& text) {
  if (!is_visible_) return;
  std::fputs((erase_line + text).c_str(), stream_);
  std::fflush(stream_);
  is_drawn_ = true;
}

void StatusLine::clear() {
  if (!is_drawn_) return;
  std::fputs(erase_line, stream_);
  std::fflush(stream_);
  is_drawn_ = false;
}

}  // namespace sft
