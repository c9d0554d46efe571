// SPDX-License-Identifier: Apache-2.0
#pragma once
// The model that a run begins with: what [model] model_name_or_path means, and what other paths of checkpoints do.

#include <string>
#include <vector>

#include "sft/checkpoint/state.hpp"
#include "sft/comm/group.hpp"
#include "sft/config/config.hpp"
#include "sft/config/options.hpp"
#include "sft/device/device.hpp"

namespace sft::apps {

/// The checkpoint that `path` means: the folder itself, or of the output folder of a run the one saved last, which a
/// line on standard error names.
[[nodiscard]] std::string checkpoint_at(const std::string& path);

/// A folder with weights.
struct StartModel {
  enum class Kind { hub, checkpoint };
  Kind kind = Kind::hub;
  std::string folder;
};

/// The folder that model_name_or_path, which is not empty, means: a model folder, a checkpoint, or of the output folder
/// of a run its checkpoint saved last. A data Error when it is none. Not collective.
[[nodiscard]] StartModel find_start_model(const config::Model& model);

/// The dtype that `dtype = auto` stands for: "float32" or "bfloat16", which a warning says; that of a checkpoint is
/// float32. A configuration Error for other dtypes.
[[nodiscard]] std::string dtype_of_model(const StartModel& start, std::vector<std::string>& warnings);

/// The configuration of .ini text and overrides (config::parse), its [model] section completed by the model that
/// model_name_or_path means. Keys given beside it must say the same: a configuration Error names one that does not. A
/// folder's path becomes absolute, and an output folder the checkpoint in it. `warnings`: what the model's config.json
/// gives reason to say. Not collective.
[[nodiscard]] config::Config parse_with_model(const std::string& ini_text, const std::vector<config::Option>& overrides,
                                              const std::string& source, std::vector<std::string>& warnings);

/// Reads the weights of `start` into `weights` (the entry "model"), each rank the pieces it holds; of ranks that hold
/// the same ones one reads each piece for all. Rank 0 first compares names and shapes; `seen` gets the numbers, and
/// those that cannot be trained on are refused. Collective over the world. Errors are data Errors that name the file
/// and the tensor.
void load_start_weights(const StartModel& start, const config::Model& model, const comm::Group& world,
                        const checkpoint::State& weights, device::Device& device, device::Stream& stream,
                        checkpoint::LoadedWeights& seen);

/// The folder in hub format that the model began with, also through checkpoints between; empty where there was none or
/// it is gone. Not collective.
[[nodiscard]] std::string find_origin(const config::Model& model);

}  // namespace sft::apps
