// SPDX-License-Identifier: Apache-2.0
#include "sft/core/log.hpp"

#include <fmt/core.h>
#include <array>
#include <cerrno>  // program_invocation_short_name, of glibc and musl
#include <cstdio>
#include <ctime>
#include <string_view>

namespace sft {

namespace {
int rank_ = 0;
bool has_lost_output_ = false;
bool are_times_shown_ = false;
}  // namespace

void set_log_rank(int rank) { rank_ = rank; }
int log_rank() { return rank_; }

void log_info(const std::string& line) { log_styled(printable(line, /*keep_layout=*/true)); }

void log_styled(const std::string& line) {
  if (rank_ != 0) return;
  const bool is_written = std::fputs(fmt::format("{}\n", line).c_str(), stdout) >= 0 && std::fflush(stdout) == 0;
  if (!is_written) has_lost_output_ = true;
}

void set_log_times(bool are_shown) { are_times_shown_ = are_shown; }

std::string log_time() {
  if (!are_times_shown_) return "";
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  std::array<char, 32> text{};
  return {text.data(), std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S ", &local)};
}

void log_event(const std::string& line) { log_info(log_time() + line); }

bool has_lost_output() { return has_lost_output_; }

void log_warning(const std::string& line) {
  if (rank_ == 0) std::fputs(fmt::format("warning: {}\n", printable(line, /*keep_layout=*/false)).c_str(), stderr);
}

void log_error(const std::string& line) {
  constexpr std::string_view next_item = "\n  ";  // an error may list several
  std::string text;
  std::size_t begin = 0;
  for (std::size_t end = line.find(next_item); end != std::string::npos; end = line.find(next_item, begin)) {
    text += printable(std::string_view(line).substr(begin, end - begin), /*keep_layout=*/false);
    text += next_item;
    begin = end + next_item.size();
  }
  text += printable(std::string_view(line).substr(begin), /*keep_layout=*/false);
  std::fputs(fmt::format("{}: error: {}\n", program_invocation_short_name, text).c_str(), stderr);
}

}  // namespace sft
