// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a run leaves for other programs, written by all its ranks together: a model in hub format, or an adapter in
// PEFT's.

#include <cstdint>
#include <string>

#include "sft/comm/group.hpp"
#include "sft/config/config.hpp"
#include "sft/device/device.hpp"
#include "sft/train/engine.hpp"

namespace sft::apps {

/// Writes the engine's weights, float32, to FOLDER, complete or not at all, in place of what is there: config.json, the
/// weights, and what the model that the run began with has beside them (tokenizer ...). `max_length`: of the rows
/// trained on. Collective over the world.
void save_model_folder(const std::string& folder, const config::Model& model, std::int64_t max_length,
                       train::Engine& engine, const comm::Group& world, device::Device& device);

/// Saves the engine's adapters in the same way: adapter_config.json and adapter_model.safetensors.
void save_adapter_folder(const std::string& folder, const config::Config& config, train::Engine& engine,
                         const comm::Group& world, device::Device& device);

}  // namespace sft::apps
