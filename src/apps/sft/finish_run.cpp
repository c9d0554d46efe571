// SPDX-License-Identifier: Apache-2.0
#include "finish_run.hpp"

#include <string>
#include <vector>

#include "next_steps.hpp"
#include "sft/core/activity.hpp"
#include "sft/core/stop_signals.hpp"

namespace sft::apps {

namespace {

void save(ExitStatus status, const config::Config& config, device::Device& device, train::Engine& engine,
          train::Trainer& trainer, ModelFolder& folder) {
  trainer.save();
  const Activity saving(ActivityKind::saves, "saving the model");
  if (status != ExitStatus::done) return;
  trainer.load_best();
  const bool leaves_folder = config.leaves_model_folder() || config.lora.use_peft;
  if (leaves_folder && !folder.is_written()) folder.save(device, engine.stream());
}

}  // namespace

void finish_run(ExitStatus status, const SettledRun& run, device::Device& device, const comm::Group& world,
                train::Engine& engine, train::Trainer& trainer, ModelFolder& folder) {
  save(status, run.config, device, engine, trainer, folder);
  ignore_stop_signals(static_cast<int>(status));
  std::vector<std::string> next;
  world.agree([&] {
    if (world.rank() == 0) next = next_steps(run.config, status, trainer.saved());
  });
  trainer.summarize(status, next);
}

}  // namespace sft::apps
