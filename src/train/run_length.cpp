// SPDX-License-Identifier: Apache-2.0
#include "sft/train/run_length.hpp"

#include <algorithm>
#include <cmath>

namespace sft::train {

std::int64_t num_steps(const config::Config& config, std::int64_t num_rows) {
  if (config.train.max_steps >= 0) return config.train.max_steps;
  const double rows = config.train.num_train_epochs * static_cast<double>(num_rows);
  const double steps = rows / static_cast<double>(config.effective_batch_rows());
  constexpr double rounding_slack = 1e-9;  // 0.1 * 30 rows are 3 rows, not 3.0000000000000004
  return std::max<std::int64_t>(1, std::llround(std::ceil(steps - rounding_slack)));
}

double epochs_after(std::int64_t steps, std::int64_t batch_rows, std::int64_t num_rows) {
  return static_cast<double>(steps) * static_cast<double>(batch_rows) / static_cast<double>(num_rows);
}

bool is_due(std::int64_t step, std::int64_t interval) { return interval > 0 && step % interval == 0; }

}  // namespace sft::train
