#pragma once
// The table that a run opens with.

#include <cstdint>
#include <string>

#include "sft/train/run.hpp"

namespace sft::train {

/// Mesh, model, batch, steps, data, device, and memory a rank. `origin` says where the weights come from. The same text
/// on every rank; collective over the world.
[[nodiscard]] std::string start_table(const Run& run, std::int64_t num_steps, const std::string& origin);

}  // namespace sft::train
