// SPDX-License-Identifier: Apache-2.0
#pragma once
// The end of a run: its files, and what can be done with them.

#include "save_model_folder.hpp"
#include "settle_run.hpp"
#include "sft/comm/group.hpp"
#include "sft/core/error.hpp"
#include "sft/device/device.hpp"
#include "sft/train/engine.hpp"
#include "sft/train/trainer.hpp"

namespace sft::apps {

/// Saves the last checkpoint and, of a run that is done, its model in `folder` unless it is written: the best one,
/// where the run keeps it. Then sums the run up. A stop signal no longer changes the exit status `status`. Collective
/// over `world`.
void finish_run(ExitStatus status, const SettledRun& run, device::Device& device, const comm::Group& world,
                train::Engine& engine, train::Trainer& trainer, ModelFolder& folder);

}  // namespace sft::apps
