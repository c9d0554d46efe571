// SPDX-License-Identifier: Apache-2.0
#include "sft/train/step_table.hpp"

#include <algorithm>

#include "sft/core/format.hpp"

namespace sft::train {

namespace {

std::string right(const std::string& text, std::size_t width) {
  return std::string(width - std::min(width, text.size()), ' ') + text;
}

std::string left(const std::string& text, std::size_t width) {
  return text + std::string(width - std::min(width, text.size()), ' ');
}

struct Widths {
  std::size_t step, epoch, loss, grad_norm, rate, accuracy, tokens, step_s;
};
constexpr Widths terminal_widths{8, 8, 10, 10, 10, 9, 10, 8};
/// Narrower: with the time in front and the time left behind it, a line of four digits of steps has 100 columns.
constexpr Widths log_widths{9, 7, 8, 9, 8, 8, 8, 7};
constexpr std::size_t left_width = 8;

}  // namespace

struct StepTable::Cells {
  std::string step, epoch, loss, grad_norm, rate, accuracy, tokens, step_s, time_left;
  bool is_evaluation = false;  ///< which has its name where others have the norm and the rate
};

StepTable::StepTable(bool is_log, std::int64_t last_step) : is_log_(is_log), last_step_(last_step) {}

std::string StepTable::step_of(std::int64_t step) const {
  return std::to_string(step) + (is_log_ ? "/" + std::to_string(last_step_) : "");
}

std::string StepTable::line(const Cells& cells) const {
  Widths widths = is_log_ ? log_widths : terminal_widths;
  if (is_log_) widths.step = std::max(widths.step, step_of(last_step_).size());
  const std::string middle = cells.is_evaluation
                                 ? left(" evaluation", widths.grad_norm + 1 + widths.rate)
                                 : right(cells.grad_norm, widths.grad_norm) + " " + right(cells.rate, widths.rate);
  return right(cells.step, widths.step) + " " + right(cells.epoch, widths.epoch) + " " +
         right(cells.loss, widths.loss) + " " + middle + " " + right(cells.accuracy, widths.accuracy) + " " +
         right(cells.tokens, widths.tokens) + " " + right(cells.step_s, widths.step_s) +
         (is_log_ && !cells.time_left.empty() ? " " + right(cells.time_left, left_width) : "");
}

std::string StepTable::header() const {
  return line({"step", "epoch", "loss", "grad norm", "rate", "accuracy", "tokens/s", "step s", is_log_ ? "left" : ""});
}

std::string StepTable::row(const StepMetrics& metrics, const std::string& time_left) const {
  return line({step_of(metrics.step), format_text("%.3f", metrics.epoch), format_text("%.5f", metrics.loss),
               format_text("%.4f", metrics.grad_norm), format_text("%.2e", metrics.learning_rate),
               format_text("%.4f", metrics.mean_token_accuracy), format_count(metrics.tokens_per_second()),
               format_text("%.3f", metrics.step_time_s), time_left});
}

std::string StepTable::row(const EvalMetrics& metrics) const {
  return line({step_of(metrics.step), format_text("%.3f", metrics.epoch), format_text("%.5f", metrics.loss), "", "",
               format_text("%.4f", metrics.mean_token_accuracy), "", format_text("%.3f", metrics.time_s), "", true});
}

}  // namespace sft::train
