// SPDX-License-Identifier: Apache-2.0
#include "sft/train/console.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <filesystem>

#include "sft/core/log.hpp"

namespace sft::train {

namespace {

/// snprintf into a string.
template <class... Arguments>
std::string format(const char* pattern, Arguments... arguments) {
  std::array<char, 256> buffer;
  std::snprintf(buffer.data(), buffer.size(), pattern, arguments...);
  return buffer.data();
}

}  // namespace

std::string format_count(double count) {
  constexpr std::array<const char*, 5> suffixes{"", " k", " M", " G", " T"};
  std::size_t i = 0;
  for (; i + 1 < suffixes.size() && count >= 999.5; ++i) count /= 1000;
  return format(i == 0 ? "%.0f%s" : "%.3g%s", count, suffixes[i]);
}

std::string format_duration(double time_s) {
  const long seconds = std::lround(std::max(0.0, time_s));
  if (seconds >= 3600) return format("%ld:%02ld:%02ld", seconds / 3600, seconds / 60 % 60, seconds % 60);
  return format("%ld:%02ld", seconds / 60, seconds % 60);
}

std::string format_seconds(double time_s) { return format("%.2f s", time_s); }

bool is_terminal() {
  if (isatty(STDOUT_FILENO) == 0) return false;
  std::error_code error;
  const auto parent_output =
      std::filesystem::read_symlink("/proc/" + std::to_string(getppid()) + "/fd/1", error).string();
  return error || parent_output.rfind("/dev/", 0) == 0;
}

Progress::Progress(std::int64_t first_step, std::int64_t last_step, bool terminal)
    : first_step_(first_step), last_step_(last_step), line_(stdout, terminal && log_rank() == 0) {}

bool Progress::is_time_to_draw(bool always) {
  if (!line_.is_visible()) return false;
  const auto now = Clock::now();
  if (now - last_drawn_ < std::chrono::milliseconds(200) && !always) return false;
  last_drawn_ = now;
  return true;
}

void Progress::advance(std::int64_t step, double loss, double learning_rate, double tokens_per_second) {
  if (!is_time_to_draw(step == last_step_)) return;
  const double elapsed_s = std::chrono::duration<double>(last_drawn_ - start_).count();
  const double left_s = elapsed_s / static_cast<double>(step - first_step_) * static_cast<double>(last_step_ - step);
  line_.show(format("step %lld/%lld  loss %.4f  rate %.2e  %s tokens/s  %s left", static_cast<long long>(step),
                    static_cast<long long>(last_step_), loss, learning_rate, format_count(tokens_per_second).c_str(),
                    format_duration(left_s).c_str()));
}

void Progress::print_header() {
  if (header_printed_) return;
  log_info(format("%8s %8s %10s %10s %10s %9s %10s %8s", "step", "epoch", "loss", "grad norm", "rate", "accuracy",
                  "tokens/s", "step s"));
  header_printed_ = true;
}

void Progress::log(const StepMetrics& metrics) {
  finish();
  print_header();
  log_info(format("%8lld %8.3f %10.5f %10.4f %10.2e %9.4f %10s %8.3f", static_cast<long long>(metrics.step),
                  metrics.epoch, metrics.loss, metrics.grad_norm, metrics.learning_rate, metrics.mean_token_accuracy,
                  format_count(metrics.tokens_per_second()).c_str(), metrics.step_time_s));
}

void Progress::show_evaluation(std::int64_t num_batches_done, std::int64_t num_batches) {
  if (!is_time_to_draw(false)) return;
  line_.show(format("evaluating: batch %lld of %lld", static_cast<long long>(num_batches_done + 1),
                    static_cast<long long>(num_batches)));
}

void Progress::log(const EvalMetrics& metrics) {
  finish();
  print_header();
  log_info(format("%8lld %8.3f %10.5f %-21s %9.4f %10s %8.3f", static_cast<long long>(metrics.step), metrics.epoch,
                  metrics.loss, " evaluation", metrics.mean_token_accuracy, "", metrics.time_s));
}

void Progress::finish() { line_.clear(); }

}  // namespace sft::train
