#include "sft/core/log.hpp"

#include <cstdio>

namespace sft {

namespace {
int rank_ = 0;
}

void set_log_rank(int rank) { rank_ = rank; }
int log_rank() { return rank_; }

void log_info(const std::string& line) {
  if (rank_ != 0) return;
  std::fputs((line + "\n").c_str(), stdout);
  std::fflush(stdout);
}

void log_warning(const std::string& line) {
  if (rank_ == 0) std::fputs(("warning: " + line + "\n").c_str(), stderr);
}

void log_error(const std::string& line) { std::fputs(("sft: error: " + line + "\n").c_str(), stderr); }

}  // namespace sft
