// SPDX-License-Identifier: Apache-2.0
#include "sft/rank/run_length.hpp"

#include <fmt/core.h>
#include <algorithm>
#include <cmath>
#include <string>

#include "sft/core/error.hpp"

namespace sft::rank {

rows::OrderKind row_order(const config::Data& data, std::int64_t num_rows) {
  using Kind = rows::OrderKind;
  switch (data.row_order) {
    case config::RowOrder::automatic:
      return data.shuffle && num_rows <= rows::RowOrder::max_rows_of_trl ? Kind::trl : Kind::endless;
    case config::RowOrder::endless:
      return Kind::endless;
    case config::RowOrder::trl:
      break;
  }
  if (data.shuffle && num_rows > rows::RowOrder::most_rows_of_trl) {
    throw_config_error(fmt::format("`data.row_order = trl` cannot be had for {} rows", num_rows),
                       fmt::format("it is a list in memory, of at most {} rows", rows::RowOrder::most_rows_of_trl),
                       "set data.row_order = endless");
  }
  return Kind::trl;
}

config::RowOrder name_of(rows::OrderKind kind) {
  return kind == rows::OrderKind::trl ? config::RowOrder::trl : config::RowOrder::endless;
}

rows::StepPositions step_positions(const config::Config& config, std::int64_t num_rows,
                                   const rows::StepOrigin& origin) {
  return {row_order(config.data, num_rows), num_rows, config.effective_batch_rows(), origin};
}

rows::StepOrigin origin_at(const config::Config& config, const checkpoint::Position& position,
                           std::int64_t batch_rows_then) {
  if (position.num_rows <= 0) return {};
  if (step_positions(config, position.num_rows).begin(position.step) == position.rows_consumed) return {};
  return {.step = position.step, .rows = position.rows_consumed, .batch_rows_then = batch_rows_then};
}

std::int64_t num_steps(const config::Config& config, std::int64_t num_rows, const rows::StepOrigin& origin) {
  if (config.train.max_steps >= 0) return config.train.max_steps;
  const rows::StepPositions positions = step_positions(config, num_rows, origin);
  const double batches = static_cast<double>(num_rows) / static_cast<double>(positions.batch_rows);
  const bool is_trl = positions.kind == rows::OrderKind::trl;
  const double steps =
      config.train.num_train_epochs * (is_trl ? static_cast<double>(positions.steps_per_epoch()) : batches);
  constexpr double rounding_slack = 1e-9;  // 0.1 * 30 rows are 3 rows, not 3.0000000000000004
  if (origin != rows::StepOrigin{}) {
    const double rows = config.train.num_train_epochs * static_cast<double>(num_rows);
    return positions.step_after(std::llround(std::ceil(rows - rounding_slack)));
  }
  return std::max<std::int64_t>(1, std::llround(std::ceil(steps - rounding_slack)));
}

double epochs_after(std::int64_t steps, const rows::StepPositions& positions) {
  return static_cast<double>(positions.begin(steps)) / static_cast<double>(positions.num_rows);
}

bool is_epoch_end(std::int64_t step, const rows::StepPositions& positions) {
  return step > 0 && positions.begin(step) / positions.num_rows > positions.begin(step - 1) / positions.num_rows;
}

bool is_due(std::int64_t step, std::int64_t interval) { return interval > 0 && step % interval == 0; }

}  // namespace sft::rank
