// SPDX-License-Identifier: Apache-2.0
#pragma once
// The README.md of a model in the hub.

#include <string>

namespace sft::launch {

struct ModelCard {
  std::string name;        ///< a title
  std::string repository;  ///< OWNER/NAME
  std::string base_model;  ///< a name of the hub; empty: it has none there
  std::string dataset;     ///< likewise
  bool is_adapter = false;
  bool is_chat = false;  ///< it has a chat template
};

/// The card that TRL writes of SFTTrainer's models, for this program: fields that the hub reads (base model, data set,
/// library, tags), what it is, how it is used and what made it. Pure.
[[nodiscard]] std::string to_markdown(const ModelCard& card);

}  // namespace sft::launch
