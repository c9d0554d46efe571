// SPDX-License-Identifier: Apache-2.0
#include "nan_policy.hpp"

#include <fmt/format.h>

#include "sft/comm/session.hpp"
#include "sft/core/format.hpp"
#include "sft/core/log.hpp"

namespace sft::train {

void count_skipped(const config::Train& train, std::int64_t step, const std::string& why,
                   checkpoint::Decisions& decisions) {
  ++decisions.num_skipped_steps;
  ++decisions.num_skipped_in_a_row;
  log_warning(fmt::format("step {} is left out: {}", step, why));
  if (decisions.num_skipped_in_a_row < train.nan_skip_limit) return;
  throw comm::SharedError(
      ExitStatus::numerical,
      fmt::format("{} up to step {} were left out", plural(decisions.num_skipped_in_a_row, "step"), step),
      fmt::format("that is train.nan_skip_limit in a row; the last one: {}", why),
      "resume from the last checkpoint, if there is one, with a lower learning_rate, or look at the rows of these "
      "steps");
}

void watch_loss(const config::Train& train, std::int64_t step, double loss, checkpoint::Decisions& decisions) {
  if (train.loss_watchdog_threshold <= 0) return;
  decisions.num_high_losses = loss > train.loss_watchdog_threshold ? decisions.num_high_losses + 1 : 0;
  if (decisions.num_high_losses < train.loss_watchdog_patience) return;
  throw comm::SharedError(
      ExitStatus::numerical, fmt::format("the loss of step {} is {:.5f}", step, loss),
      fmt::format(
          "it was above train.loss_watchdog_threshold = {} in {}", train.loss_watchdog_threshold,
          decisions.num_high_losses == 1 ? "this step" : fmt::format("{} steps in a row", decisions.num_high_losses)),
      "resume from a checkpoint before that with a lower learning_rate; nothing was saved now");
}

}  // namespace sft::train
