// SPDX-License-Identifier: Apache-2.0
#include "start_weights.hpp"

#include <fmt/core.h>
#include <filesystem>
#include <string>
#include <system_error>

#include "apps/common/start_model.hpp"
#include "save_model_folder.hpp"
#include "sft/checkpoint/loaded_weights.hpp"
#include "sft/comm/session.hpp"
#include "sft/hub/folder.hpp"

namespace sft::apps {

std::optional<train::StartWeights> start_weights(const config::Config& config, const comm::Group& world,
                                                 train::Engine& engine, device::Device& device) {
  const config::Model& model = config.model;
  if (model.model_name_or_path.empty()) return std::nullopt;
  StartModel start;
  world.agree([&] {
    if (world.rank() != 0) return;
    start = find_start_model(model);
    std::error_code ignored;
    if (config.leaves_model_folder() &&
        std::filesystem::equivalent(start.folder, ModelFolder::folder_of(config), ignored)) {
      throw comm::SharedError(ExitStatus::configuration, "the run would replace the model that it begins with",
                              fmt::format("it leaves its own in {}", ModelFolder::folder_of(config)),
                              "set another train.output_dir, or checkpoint.save_hub_model = false");
    }
  });
  world.broadcast(start.folder, 0);
  if (world.rank() != 0) {
    start.kind = hub::is_model_folder(start.folder) ? StartModel::Kind::hub : StartModel::Kind::checkpoint;
  }
  const auto load = [start, &config, &world, &engine, &device](const checkpoint::State& weights) -> std::string {
    const bool stay_frozen = config.lora.use_peft;
    checkpoint::LoadedWeights seen(/*takes_fingerprint=*/stay_frozen);
    load_start_weights(start, config.model, world, weights, device, engine.stream(), seen);
    return stay_frozen ? seen.fingerprint(world) : "";
  };
  return train::StartWeights{start.folder, load};
}

}  // namespace sft::apps
