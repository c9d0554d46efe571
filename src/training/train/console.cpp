// SPDX-License-Identifier: Apache-2.0
#include "sft/train/console.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "sft/core/format.hpp"
#include "sft/core/log.hpp"
#include "sft/train/health.hpp"

namespace sft::train {

bool is_terminal() {
  if (isatty(STDOUT_FILENO) == 0) return false;
  std::error_code error;
  const auto parent_output =
      std::filesystem::read_symlink("/proc/" + std::to_string(getppid()) + "/fd/1", error).string();
  return error || parent_output.rfind("/dev/", 0) == 0;
}

namespace {

/// Until SLURM ends the job; nothing outside of one, or where it tells no time.
std::optional<double> job_time_left_s() {
  const char* const end = std::getenv("SLURM_JOB_END_TIME");
  if (end == nullptr) return std::nullopt;
  const double now_s = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  return std::max(0.0, std::strtod(end, nullptr) - now_s);
}

/// Time that the rest takes if it goes on as before.
std::string left_after(std::chrono::steady_clock::duration elapsed, std::int64_t done, std::int64_t all) {
  const double elapsed_s = std::chrono::duration<double>(elapsed).count();
  return format_duration(elapsed_s / static_cast<double>(done) * static_cast<double>(all - done));
}

}  // namespace

Progress::Progress(std::int64_t first_step, std::int64_t last_step, bool terminal)
    : first_step_(first_step),
      last_step_(last_step),
      is_log_(!terminal),
      table_(is_log_, last_step),
      line_(stdout, terminal && log_rank() == 0) {}

void Progress::begin_steps() { start_ = Clock::now(); }

bool Progress::is_time_to_draw(bool always) {
  if (!line_.is_visible()) return false;
  const auto now = Clock::now();
  if (now - last_drawn_ < std::chrono::milliseconds(200) && !always) return false;
  last_drawn_ = now;
  return true;
}

std::string Progress::time_left(std::int64_t step) const {
  return left_after(Clock::now() - start_, step - first_step_, last_step_ - first_step_);
}

void Progress::tell_health(const StepMetrics& metrics) {
  constexpr std::int64_t enough_steps = 3;  // for a rate: the first one takes longer
  constexpr std::chrono::minutes between(10);
  if (metrics.step < first_step_ + enough_steps) return;
  const auto now = Clock::now();
  const std::optional<double> left_s = job_time_left_s();
  if (!health_told_ || now - *health_told_ >= between) {
    health_told_ = now;
    for (const std::string& line : describe_health(metrics, left_s)) log_event(line);
  }
  if (left_s) tell_job_end(metrics.step, *left_s);
}

void Progress::tell_job_end(std::int64_t step, double left_s) {
  if (has_told_job_end_) return;
  has_told_job_end_ = true;
  const double step_s =
      std::chrono::duration<double>(Clock::now() - start_).count() / static_cast<double>(step - first_step_);
  const double last = static_cast<double>(step) + left_s / step_s;
  if (last >= static_cast<double>(last_step_)) return;
  log_event(
      fmt::format("the job's time ends in {}, at about step {} of {}: a signal before that saves the run, which "
                  "checkpoint.resume_from_checkpoint = auto goes on from",
                  format_duration(left_s), static_cast<std::int64_t>(last), last_step_));
}

void Progress::advance(const StepMetrics& metrics) {
  if (!is_time_to_draw(metrics.step == last_step_)) return;
  line_.show(format_text("step %lld/%lld  loss %.4f  rate %.2e  %s tokens/s  %s left",
                         static_cast<long long>(metrics.step), static_cast<long long>(last_step_), metrics.step_loss,
                         metrics.learning_rate, format_count(metrics.tokens_per_second()).c_str(),
                         time_left(metrics.step).c_str()));
}

void Progress::print(const std::string& line) {
  finish();
  if (!header_printed_) log_info(std::string(log_time().size(), ' ') + table_.header());
  header_printed_ = true;
  log_event(line);
}

void Progress::log(const StepMetrics& metrics) {
  print(table_.row(metrics, time_left(metrics.step)));
  tell_health(metrics);
}

void Progress::log_first(const StepMetrics& metrics) {
  if (is_log_ && metrics.step == first_step_ + 1) log(metrics);
}

void Progress::begin_evaluation(std::int64_t num_rows) {
  evaluation_start_ = evaluation_shown_ = Clock::now();
  if (is_log_) log_event("evaluating " + plural(num_rows, "row"));
}

void Progress::show_evaluation(std::int64_t num_batches_done, std::int64_t num_batches) {
  constexpr std::chrono::minutes between_lines(1);
  const auto now = Clock::now();
  if (is_log_ && num_batches_done > 0 && now - evaluation_shown_ >= between_lines) {
    evaluation_shown_ = now;
    log_event(format_text("evaluating: %lld of %lld batches, %s left", static_cast<long long>(num_batches_done),
                          static_cast<long long>(num_batches),
                          left_after(now - evaluation_start_, num_batches_done, num_batches).c_str()));
  }
  if (!is_time_to_draw(false)) return;
  line_.show(format_text("evaluating: batch %lld of %lld", static_cast<long long>(num_batches_done) + 1,
                         static_cast<long long>(num_batches)));
}

void Progress::log(const EvalMetrics& metrics) { print(table_.row(metrics)); }

void Progress::finish() { line_.clear(); }

}  // namespace sft::train
