// SPDX-License-Identifier: Apache-2.0
// Rotary embeddings in config.json as transformers 4 reads them.
#include <cmath>
#include <utility>

#include "hub/families/shared/writing.hpp"
#include "sft/config/rope_scaling.hpp"

namespace sft::hub {

using nlohmann::ordered_json;

namespace {

constexpr const char* original_length = "original_max_position_embeddings";

/// Whether the factor of cosines and sines is the one that follows from the growth of the context.
bool follows_from_growth(const config::RopeScaling& scaling, const ordered_json& max_position_embeddings) {
  if (!max_position_embeddings.is_number()) return false;
  const auto original = static_cast<double>(scaling.original_max_position_embeddings);
  const double growth = max_position_embeddings.get<double>() / original;
  const double derived = growth <= 1.0 ? 1.0 : std::sqrt(1.0 + std::log(growth) / std::log(original));
  return std::abs(scaling.attention_factor - derived) <= 1e-9 * derived;
}

}  // namespace

bool holds(const ordered_json& object, const char* name) {
  const auto field = object.find(name);
  return field != object.end() && !field->is_null() && !(field->is_object() && field->empty());
}

/// Writes the rotation as version 4 reads it: rope_scaling of longrope has three fields, the others stand outside, as
/// does the share of dims that are rotated.
void write_older_rotation(const Writing& w) {
  const double share = w.model.partial_rotary_factor;
  if (w.family.partial_rotary_factor != 1.0 || share != 1.0) w.object["partial_rotary_factor"] = share;
  const config::RopeScaling& scaling = w.model.rope_scaling;
  if (scaling.rope_type != config::RopeType::longrope) return;
  w.object["rope_scaling"] = {
      {"type", "longrope"}, {"short_factor", scaling.short_factor}, {"long_factor", scaling.long_factor}};
  if (!follows_from_growth(scaling, w.object.value("max_position_embeddings", ordered_json(4096)))) {
    w.object["rope_scaling"]["attention_factor"] = scaling.attention_factor;  // which version 4 refuses
  }
  w.object[original_length] = scaling.original_max_position_embeddings;
}

/// transformers 5 saves the rotary embedding as rope_parameters alone, where version 4, vLLM and llama.cpp do not look:
/// they would take default frequencies without a word.
void add_older_rope(const Writing& w) {
  ordered_json& object = w.object;
  if (!holds(object, "rope_parameters")) return;
  const bool has_kinds = object["rope_parameters"].contains("full_attention");
  const ordered_json parameters = has_kinds ? object["rope_parameters"]["full_attention"] : object["rope_parameters"];
  const bool says_theta = parameters.value("rope_theta", ordered_json()) == w.model.rope_theta;
  object["rope_theta"] = says_theta ? parameters["rope_theta"] : ordered_json(w.model.rope_theta);
  if (holds(object, "rope_scaling")) return;  // which counts in version 5 as well
  write_older_rotation(w);
  if (holds(object, "rope_scaling")) return;
  object["rope_scaling"] = nullptr;
  const std::string understood = config::to_json(w.model.rope_scaling);
  if (understood.empty()) return;
  const ordered_json complete = ordered_json::parse(understood);
  ordered_json scaling = {{"rope_type", complete["rope_type"]}, {"factor", complete["factor"]}};
  for (const auto& [name, value] : parameters.items()) {
    const bool is_outside = name == "rope_theta" || name == "partial_rotary_factor" || name == "type";
    if (!is_outside && !value.is_null()) scaling[name] = value;
  }
  if (w.model.rope_scaling.rope_type != config::RopeType::dynamic && complete.contains(original_length)) {
    scaling[original_length] = complete[original_length];
  }
  object["rope_scaling"] = std::move(scaling);
}

}  // namespace sft::hub
