// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a model folder in hub format has beside its tensors.

#include <cstdint>
#include <string>
#include <vector>

#include "sft/config/config.hpp"
#include "sft/core/markup.hpp"
#include "sft/hub/file_layout.hpp"
#include "sft/hub/weights.hpp"
#include "sft/io/tensor_source.hpp"

namespace sft::apps {

/// What to do about weights that are not those of the config.json beside them.
inline constexpr const char* mismatched_folder =
    "its config.json and its weights do not belong together: copy or download the folder again";

/// What a model folder is to hold: as the folder that the model began with does, where that still describes it.
struct FolderContents {
  std::string origin;        ///< that folder; empty: there is none any more
  std::string config_json;   ///< of the new folder; empty for an adapter
  hub::FileLayout layout;    ///< of the new files, or of those that an adapter belongs to
  Markup markup = {};        ///< what the rows were written with that the model was trained on
  std::string adapter = "";  ///< a PEFT folder that is merged: its tokenizer takes the place of the origin's
};
/// For a model with its weights stored as `type`; warnings say what is lost. `max_length`: of the rows that the model
/// was trained on. One rank.
[[nodiscard]] FolderContents plan_contents(const config::Model& model, hub::WeightType type, std::int64_t max_length);
/// Refuses, by a data Error, a model that no model folder can hold, so that a run does not end with that. One rank.
void require_writable(const config::Model& model);
/// For adapters of the model. One rank.
[[nodiscard]] FolderContents plan_adapter_contents(const config::Model& model);

/// Writes config.json and copies the companions of the origin (tokenizer ...) into `folder`; in these and in
/// config.json the tokens and the chat template are those that it was trained with. One rank.
void write_companions(const std::string& folder, const FolderContents& contents);

/// Makes adapter_config.json in `folder`, of an adapter with the `tensors` "ENTRY/NAME", and copies the tokenizer of
/// the model that it belongs to, as write_companions() does. One rank.
void write_adapter_companions(const std::string& folder, const FolderContents& contents, const config::Config& config,
                              const std::vector<io::TensorInfo>& tensors);

/// Makes the safetensors files of the plan, without their tensors, and their index. One rank.
void write_weight_files(const hub::WeightsPlan& plan, const std::string& folder);

}  // namespace sft::apps
