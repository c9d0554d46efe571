// SPDX-License-Identifier: Apache-2.0
#pragma once
// Fields that several families write to the config.json of a model that has none, and what versions of transformers
// call otherwise.

#include "hub/families/family.hpp"

namespace sft::hub {

/// Writes attention_bias and mlp_bias.
void write_biases(const Writing& w);
/// Writes attention_bias alone.
void write_attention_bias(const Writing& w);
/// Writes sliding_window and layer_types where layers slide.
void write_windows(const Writing& w);
/// Writes the windows of Qwen and its relatives, with use_sliding_window and max_window_layers.
void write_windows_of_qwen(const Writing& w);
/// Writes the rotary embeddings of a model whose sliding layers have one of their own.
void write_two_ropes(const Writing& w);
/// Writes the experts of a token and the auxiliary loss.
void write_router(const Writing& w);

/// Whether the field is there and says something.
[[nodiscard]] bool holds(const nlohmann::ordered_json& object, const char* name);
/// Puts the share of rotated dims, and a longrope, where transformers 4 reads them.
void write_older_rotation(const Writing& w);

}  // namespace sft::hub
