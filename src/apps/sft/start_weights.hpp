// SPDX-License-Identifier: Apache-2.0
#pragma once
// The weights that a run begins with.

#include <optional>

#include "sft/comm/group.hpp"
#include "sft/config/config.hpp"
#include "sft/device/device.hpp"
#include "sft/train/engine.hpp"
#include "sft/train/run.hpp"

namespace sft::apps {

/// The weights of the model that the configuration names, which rank 0 looks for; none: the run begins with random
/// ones. Throws the same configuration Error on every rank where the run would replace that model by its own. All
/// references outlive the answer. Collective over `world`.
[[nodiscard]] std::optional<train::StartWeights> start_weights(const config::Config& config, const comm::Group& world,
                                                               train::Engine& engine, device::Device& device);

}  // namespace sft::apps
