// SPDX-License-Identifier: Apache-2.0
// Rotary embeddings in config.json.
#include <fmt/core.h>
#include <algorithm>
#include <stdexcept>

#include "hub/families/shared/reading.hpp"
#include "sft/config/rope_scaling.hpp"

namespace sft::hub {

namespace {

using nlohmann::json;

/// The object that describes the scaling, without fields that are null: rope_scaling comes before rope_parameters.
json scaling_object(ConfigFields& fields, std::string& field) {
  for (const char* name : {"rope_parameters", "rope_scaling"}) {
    const json& value = fields.value(name);
    if (value.is_null() || (value.is_object() && value.empty())) continue;
    if (!value.is_object()) fields.refuse(name, "it is no object", "correct config.json");
    field = name;
  }
  json object = json::object();
  if (field.empty()) return object;
  for (const auto& [name, value] : fields.value(field).items()) {
    if (value.is_object()) {
      fields.refuse(field, fmt::format("it differs between kinds of layers ({})", name),
                    "use a model with one kind of layer");
    }
    if (!value.is_null()) object[name] = value;
  }
  return object;
}

/// All fields, with those of full_attention in rope_parameters in the place of both kinds of layers. Sets the base of
/// sliding layers.
json take_local_rope(const Reading& r, double local_theta) {
  constexpr const char* name = "rope_parameters";
  ConfigFields& fields = r.fields;
  r.model.rope_local_base_freq = local_theta;
  json all = fields.object();
  const json parameters = fields.value(name);
  if (!parameters.is_object() || parameters.empty()) return all;
  if (!parameters.contains("full_attention") && !parameters.contains("sliding_attention")) {
    fields.refuse(name, "it should say full_attention and sliding_attention; transformers reads nothing else of it",
                  "correct config.json");
  }
  const json full = parameters.value("full_attention", json()), local = parameters.value("sliding_attention", json());
  all[name] = full;
  if (all.contains("rope_scaling") && all["rope_scaling"].is_object()) {
    if (!full.is_null()) all[name].update(all["rope_scaling"]);
    all["rope_scaling"] = nullptr;
  }
  if (local.is_null()) return all;
  ConfigFields of_local(local, fields.source());
  if (of_local.text("rope_type", "default") != "default") {
    fields.refuse(name, "the positions of sliding layers are not scaled in any model", other_model);
  }
  r.model.rope_local_base_freq = of_local.number("rope_theta", r.model.rope_local_base_freq);
  return all;
}

std::string take_kind(const ConfigFields& fields, Rope& rope) {
  std::string kind = "default";
  for (const char* name : {"type", "rope_type"}) {
    const auto found = rope.object.find(name);
    if (found == rope.object.end()) continue;
    if (!found->is_string()) fields.refuse(rope.field, std::string(name) + " in it is no text", "correct config.json");
    kind = found->get<std::string>();
    rope.object.erase(found);
  }
  return kind;
}

/// Removes fields that transformers does not read for this kind; those that may mean something are named.
void drop_unknown(const ConfigFields& fields, const std::string& kind, json& object,
                  std::vector<std::string>& warnings) {
  const std::vector<std::string> known = config::rope_scaling_fields(kind);
  std::string unread;
  for (auto field = object.begin(); field != object.end();) {
    if (std::ranges::find(known, field.key()) != known.end()) {
      ++field;
      continue;
    }
    if (field.key() != "original_max_position_embeddings") unread += (unread.empty() ? "" : ", ") + field.key();
    field = object.erase(field);
  }
  if (!unread.empty()) {
    warnings.push_back(
        fmt::format("the rotary embedding of {}, of kind {}, has fields that such a one does not read: {}",
                    fields.source(), kind, unread));
  }
}

/// Fills in what transformers derives from the lengths that the model knows.
void complete(const Reading& r, const std::string& kind, Rope& rope) {
  json& object = rope.object;
  const char* const original = "original_max_position_embeddings";
  const std::int64_t outer = r.fields.integer(original, rope.original_length);
  if (kind == "dynamic") object[original] = r.model.max_position_embeddings;
  if (kind != "yarn" && kind != "llama3" && kind != "longrope") return;
  if (outer > 0) {
    object[original] = outer;
  } else if (!object.contains(original) && kind != "longrope") {
    object[original] = r.model.max_position_embeddings;
  }
  const json length = object.value(original, json());
  if (kind == "llama3" || !length.is_number() || !(length.get<double>() > 0)) return;
  const double ratio = static_cast<double>(r.model.max_position_embeddings) / length.get<double>();
  if (!object.contains("factor")) object["factor"] = ratio;
  const json& factor = object["factor"];
  if (kind == "yarn" && factor.is_number() && ratio != 1.0 && factor.get<double>() != ratio) {
    r.warnings.push_back(
        fmt::format("the rotary embedding of {} has factor {}, but its context grew {} times: the factor counts, as in "
                    "transformers 5; transformers 4 takes the growth",
                    r.fields.source(), factor.dump(), json(ratio).dump()));
  }
}

}  // namespace

double take_number(const ConfigFields& fields, Rope& rope, const char* name, double fallback) {
  const auto found = rope.object.find(name);
  if (found == rope.object.end()) return fallback;
  if (!found->is_number()) fields.refuse(rope.field, std::string(name) + " in it is no number", "correct config.json");
  const auto number = found->get<double>();
  rope.object.erase(found);
  return number;
}

Rope read_rope_object(const Reading& r, const RopeRules& rules) {
  ConfigFields& fields = r.fields;
  const double outer_theta = fields.number("rope_theta", r.family.rope_theta);
  const double outer_part = fields.number("partial_rotary_factor", r.family.partial_rotary_factor);
  std::string found;
  Rope rope{.field = "rope_scaling", .object = scaling_object(fields, found)};
  if (!found.empty()) rope.field = found;
  // One that is null means another one in version 4 of transformers than in 5.
  const bool is_mentioned = fields.has("rope_parameters") || fields.has("rope_scaling");
  if (!is_mentioned && rules.fallback.is_object()) rope.object = rules.fallback;
  r.model.rope_theta = take_number(fields, rope, "rope_theta", outer_theta);
  r.model.partial_rotary_factor = take_number(fields, rope, "partial_rotary_factor", outer_part);
  if (!rules.rotates_parts && r.model.partial_rotary_factor != 1.0) {
    fields.refuse(fields.has("partial_rotary_factor") ? "partial_rotary_factor" : rope.field,
                  fmt::format("{} rotates every dim of a head", r.family.architecture),
                  "use a model whose heads are rotated whole");
  }
  return rope;
}

void set_rope_scaling(const Reading& r, Rope rope) {
  const std::string kind = take_kind(r.fields, rope);
  try {
    drop_unknown(r.fields, kind, rope.object, r.warnings);
    complete(r, kind, rope);
    rope.object["rope_type"] = kind;
    r.model.rope_scaling = config::parse_rope_scaling(rope.object.dump());
  } catch (const std::invalid_argument& expectation) {
    r.fields.refuse(rope.field, std::string("expected ") + expectation.what(),
                    "use a model with one of these, or correct it");
  }
}

void read_rope(const Reading& r, const RopeRules& rules) { set_rope_scaling(r, read_rope_object(r, rules)); }

void read_two_ropes(const Reading& r, double local_theta) {
  const json all = take_local_rope(r, local_theta);
  if (r.model.layer_types.empty()) r.model.rope_local_base_freq = 0.0;  // no layer slides
  ConfigFields of_main(all, r.fields.source());
  read_rope({of_main, r.family, r.is_tower, r.model, r.warnings});
  if (r.model.rope_scaling.rope_type == config::RopeType::yarn && !r.model.rope_scaling.truncate) {
    r.fields.refuse(r.fields.has("rope_parameters") ? "rope_parameters" : "rope_scaling",
                    "truncate = false is read by version 4 of transformers and not by version 5",
                    "leave truncate out, and the range is rounded in both");
  }
  for (const char* name :
       {"rope_theta", "rope_parameters", "rope_scaling", "partial_rotary_factor", "original_max_position_embeddings"}) {
    static_cast<void>(r.fields.value(name));  // read
  }
}

}  // namespace sft::hub
