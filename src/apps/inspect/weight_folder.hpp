// SPDX-License-Identifier: Apache-2.0
#pragma once
// Tensors and the configuration they belong to, in whatever kind of folder they are.

#include <memory>
#include <optional>
#include <string>

#include "sft/checkpoint/checkpoint.hpp"
#include "sft/config/config.hpp"
#include "sft/io/tensor_source.hpp"

namespace sft::apps {

struct WeightFolder {
  enum class Kind { checkpoint, model, adapter };
  Kind kind = Kind::checkpoint;
  std::string path;
  std::optional<checkpoint::Header> header;  ///< of a checkpoint
  config::Config config;                     ///< of a model its [model] section alone, of an adapter [lora]
  std::unique_ptr<io::TensorSource> source;
};

/// "checkpoint", "model folder" or "adapter".
[[nodiscard]] const char* name_of(WeightFolder::Kind kind);

/// Opens a checkpoint, of the output folder of a run the one saved last, a model folder of the hub, or an adapter's in
/// PEFT's format. A data Error for another path.
[[nodiscard]] WeightFolder open_weight_folder(const std::string& path);

}  // namespace sft::apps
