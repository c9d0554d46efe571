// SPDX-License-Identifier: Apache-2.0
#pragma once
// A model that text can be asked of: its parts, its weights, with an adapter perhaps, and its tokenizer.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "apps/common/start_model.hpp"
#include "sft/checkpoint/state.hpp"
#include "sft/comm/group.hpp"
#include "sft/config/config.hpp"
#include "sft/core/markup.hpp"
#include "sft/device/device.hpp"
#include "sft/hub/merged_weights.hpp"

namespace sft::apps {

struct TextModel {
  config::Model model;
  StartModel start;                            ///< where the weights are; with an adapter those below it
  std::unique_ptr<hub::MergedWeights> merged;  ///< weights with the adapter added; null without one
  /// The weights below an adapter, as its checkpoint says: what they are, and where they were. Empty: not known.
  std::string frozen_fingerprint, frozen_origin;
  std::string tokenizer;              ///< what text::make_tokenizer takes
  std::string generation_folder;      ///< the model folder whose settings hold; empty: there is none
  std::int64_t trained_length = 0;    ///< of rows in training; 0: not known
  Markup markup;                      ///< what these rows were written with, as a checkpoint says it
  std::vector<std::string> warnings;  ///< what the model's config.json gives reason to say
};

/// What `path` means: a model folder, the name of one in the local hub cache, a checkpoint, or of the output folder of
/// a run its checkpoint saved last. A checkpoint of a LoRA run is the model that it began with and the adapter in it.
/// `adapter`, unless empty, is added to that model: a PEFT folder, or a checkpoint or output folder of a LoRA run.
/// `tokenizer` is one in place of the model's own; empty: none. Errors are data or configuration Errors. Not
/// collective.
[[nodiscard]] TextModel find_text_model(const std::string& path, const std::string& adapter,
                                        const std::string& tokenizer);

/// Reads the weights into `weights` (the entry "model"). Refuses those that the adapter was not trained beside. `world`
/// has one rank.
void load_text_model(const TextModel& found, const comm::Group& world, const checkpoint::State& weights,
                     device::Device& device, device::Stream& stream);

}  // namespace sft::apps
