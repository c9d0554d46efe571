// SPDX-License-Identifier: Apache-2.0
#pragma once
// Fields of config.json that several families have.

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "hub/families/family.hpp"

namespace sft::hub {

inline constexpr const char* other_model = "use another model";

/// Refuses gates that do not go through silu.
void read_silu(const Reading& r);
/// Reads attention_bias, which is on q, k, v and o.
void read_attention_bias(const Reading& r, bool fallback);
/// Reads attention_bias and mlp_bias, which are false where they are not there.
void read_biases(const Reading& r);

/// layer_types, one of full_attention and sliding_attention for each layer; empty where it is not there.
[[nodiscard]] std::vector<std::string> read_layer_types(const Reading& r);
/// Refuses layer_types by which a layer slides.
void read_one_kind_of_layer(const Reading& r);
/// Sets the window of the layers that slide. `refuse` is called where some do and it is 0.
void set_windows(const Reading& r, std::int64_t window, std::vector<std::string> layer_types,
                 void (*refuse)(ConfigFields&));
/// Says that layers slide and no window is used.
[[noreturn]] void refuse_unused_window(ConfigFields& fields);
/// The value of sliding_window, 0 where it is null; `fallback` where it is not there.
[[nodiscard]] std::int64_t read_window(const Reading& r, std::int64_t fallback);
/// Reads the window of families in which all layers slide; `fallback` where it is not there.
void read_window_of_all(const Reading& r, std::int64_t fallback);
/// Reads the windows of families whose layers slide but for every so many-th.
void read_alternating_windows(const Reading& r, std::int64_t every, std::int64_t default_window);
/// Reads the windows of Qwen 2 and 3: the first max_window_layers layers see the whole document.
void read_windows_of_qwen(const Reading& r);

/// The rotary embeddings that a family allows.
struct RopeRules {
  bool rotates_parts = false;    ///< of a head
  nlohmann::json fallback = {};  ///< the scaling of a config.json that does not mention it; null: none
};
/// The rotary embedding of a config.json, rope_theta and partial_rotary_factor taken out.
struct Rope {
  std::string field;                 ///< that has it, for messages
  nlohmann::json object;             ///< what it says of the scaling, null fields left out
  std::int64_t original_length = 0;  ///< the original context where it is not said; 0: it follows from the context
};
/// Sets model.rope_theta and partial_rotary_factor.
[[nodiscard]] Rope read_rope_object(const Reading& r, const RopeRules& rules);
/// Takes a number out of the object.
[[nodiscard]] double take_number(const ConfigFields& fields, Rope& rope, const char* name, double fallback);
/// Sets model.rope_scaling as transformers 5 would understand the object; where 4 would not agree, a sentence in
/// the warnings says so.
void set_rope_scaling(const Reading& r, Rope rope);
/// Reads the rotary embedding of families that have one for all layers: the two above.
void read_rope(const Reading& r, const RopeRules& rules = {});
/// Reads the rotary embeddings of families whose sliding layers have one of their own, with base `local_theta` where
/// rope_parameters does not say it. The windows are set.
void read_two_ropes(const Reading& r, double local_theta);

/// Reads the number of experts, which are in all layers, of those of a token, and the auxiliary loss.
void read_experts(const Reading& r, std::int64_t default_experts, std::int64_t default_choices);
/// Refuses noise on what routers read.
void refuse_jitter(const Reading& r);
/// Refuses a model without layers that have experts: `field` says which have.
void require_expert_layers(const Reading& r, const char* field);

}  // namespace sft::hub
