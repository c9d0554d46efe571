// SPDX-License-Identifier: Apache-2.0
#pragma once
// The lines of the table of steps and evaluations, in two forms: for a terminal, where a line in place says the rest,
// and for a log, which says of how many steps a step is and how much time is left, and has room for the time in front.

#include <cstdint>
#include <string>

#include "sft/train/metrics.hpp"

namespace sft::train {

class StepTable {
 public:
  /// The table of a run of `last_step` steps.
  StepTable(bool is_log, std::int64_t last_step);

  /// The names of the columns.
  [[nodiscard]] std::string header() const;
  /// `time_left`: in a log alone.
  [[nodiscard]] std::string row(const StepMetrics& metrics, const std::string& time_left) const;
  [[nodiscard]] std::string row(const EvalMetrics& metrics) const;

 private:
  struct Cells;
  [[nodiscard]] std::string line(const Cells& cells) const;
  /// "1400", in a log "1400/1400".
  [[nodiscard]] std::string step_of(std::int64_t step) const;

  bool is_log_;
  std::int64_t last_step_;
};

}  // namespace sft::train
