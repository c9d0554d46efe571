// SPDX-License-Identifier: Apache-2.0
#pragma once
// Steps that go wrong: those that are left out because something in them is NaN or Inf (nan_policy = skip), and losses
// that stay too high (loss_watchdog_threshold and _patience, under Axolotl's names).

#include <cstdint>
#include <string>

#include "sft/checkpoint/checkpoint.hpp"
#include "sft/config/config.hpp"

namespace sft::train {

/// Counts `step`, which was left out because of `why`, and says so in a warning. Throws a numerical Error, the same on
/// every rank, when it is the last of nan_skip_limit in a row.
void count_skipped(const config::Train& train, std::int64_t step, const std::string& why,
                   checkpoint::Decisions& decisions);

/// Counts `step`, which was done. Throws a numerical Error, the same on every rank, when its loss is above the
/// watchdog's threshold and so were those of the steps before it, loss_watchdog_patience of them with this one.
void watch_loss(const config::Train& train, std::int64_t step, double loss, checkpoint::Decisions& decisions);

}  // namespace sft::train
