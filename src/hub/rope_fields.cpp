// SPDX-License-Identifier: Apache-2.0
#include "config_fields.hpp"

#include <fmt/core.h>
#include <algorithm>
#include <stdexcept>

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

/// Of families whose sliding layers have an embedding of their own: reads that, and returns all fields with those of
/// the other layers in the place of both.
json read_local_rope(ConfigFields& fields, const FamilyDefaults& family, config::Model& model) {
  constexpr const char* name = "rope_parameters";
  const bool is_gemma = family.family == Family::gemma3;
  constexpr double theta_of_gemma = 10000.0;
  const double theta = fields.number("rope_theta", family.rope_theta);
  model.rope_local_base_freq = is_gemma ? fields.number("rope_local_base_freq", theta_of_gemma) : theta;
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
    fields.refuse(name, "the positions of sliding layers are not scaled in any model", "use another model");
  }
  model.rope_local_base_freq = of_local.number("rope_theta", model.rope_local_base_freq);
  return all;
}

/// Takes a number out of the object.
double take_number(const ConfigFields& fields, const std::string& field, json& object, const char* name,
                   double fallback) {
  const auto found = object.find(name);
  if (found == object.end()) return fallback;
  if (!found->is_number()) fields.refuse(field, std::string(name) + " in it is no number", "correct config.json");
  const auto number = found->get<double>();
  object.erase(found);
  return number;
}

std::string take_kind(const ConfigFields& fields, const std::string& field, json& object) {
  std::string kind = "default";
  for (const char* name : {"type", "rope_type"}) {
    const auto found = object.find(name);
    if (found == object.end()) continue;
    if (!found->is_string()) fields.refuse(field, std::string(name) + " in it is no text", "correct config.json");
    kind = found->get<std::string>();
    object.erase(found);
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

/// Fills in what transformers derives from the lengths that the model knows. `default_original`: the original context
/// where the family has one of its own, else 0.
void complete(ConfigFields& fields, const config::Model& model, const std::string& kind, json& object,
              std::int64_t default_original, std::vector<std::string>& warnings) {
  const char* const original = "original_max_position_embeddings";
  const std::int64_t outer = fields.integer(original, default_original);
  if (kind == "dynamic") object[original] = model.max_position_embeddings;
  if (kind != "yarn" && kind != "llama3" && kind != "longrope") return;
  if (outer > 0) {
    object[original] = outer;
  } else if (!object.contains(original) && kind != "longrope") {
    object[original] = model.max_position_embeddings;
  }
  const json length = object.value(original, json());
  if (kind == "llama3" || !length.is_number() || !(length.get<double>() > 0)) return;
  const double ratio = static_cast<double>(model.max_position_embeddings) / length.get<double>();
  if (!object.contains("factor")) object["factor"] = ratio;
  const json& factor = object["factor"];
  if (kind == "yarn" && factor.is_number() && ratio != 1.0 && factor.get<double>() != ratio) {
    warnings.push_back(
        fmt::format("the rotary embedding of {} has factor {}, but its context grew {} times: the factor counts, as in "
                    "transformers 5; transformers 4 takes the growth",
                    fields.source(), factor.dump(), json(ratio).dump()));
  }
}

}  // namespace

namespace {

/// That of a config.json that does not mention it; one that is null means another one in version 4 of transformers
/// than in 5.
json default_scaling(Family family) {
  if (family == Family::gpt_oss) {
    return {{"rope_type", "yarn"}, {"factor", 32.0},    {"beta_fast", 32.0},
            {"beta_slow", 1.0},    {"truncate", false}, {"original_max_position_embeddings", 4096}};
  }
  if (family == Family::ministral3) {
    return {{"rope_type", "yarn"},
            {"rope_theta", 1000000.0},
            {"factor", 16.0},
            {"beta_fast", 32.0},
            {"beta_slow", 1.0},
            {"mscale", 1.0},
            {"mscale_all_dim", 1.0},
            {"llama_4_scaling_beta", 0.1},
            {"original_max_position_embeddings", 16384}};
  }
  return json::object();
}

void read_main_rope(ConfigFields& fields, const FamilyDefaults& family, config::Model& model,
                    std::vector<std::string>& warnings) {
  std::string field = "rope_scaling";
  const double outer_theta = fields.number("rope_theta", family.rope_theta);
  const double outer_part = fields.number("partial_rotary_factor", family.partial_rotary_factor);
  std::string found;
  json object = scaling_object(fields, found);
  if (!found.empty()) field = found;
  if (!fields.has("rope_parameters") && !fields.has("rope_scaling")) object = default_scaling(family.family);
  model.rope_theta = take_number(fields, field, object, "rope_theta", outer_theta);
  model.partial_rotary_factor = take_number(fields, field, object, "partial_rotary_factor", outer_part);
  const bool turns_parts =
      family.family == Family::phi3 || family.family == Family::glm4 || family.family == Family::glm4_moe;
  if (!turns_parts && model.partial_rotary_factor != 1.0) {
    fields.refuse(fields.has("partial_rotary_factor") ? "partial_rotary_factor" : field,
                  fmt::format("{} rotates every dim of a head", family.architecture),
                  "use a model whose heads are rotated whole");
  }
  if (family.family == Family::ministral3) {
    if (object.empty()) fields.refuse(field, "it says nothing of the rotary embedding", "correct config.json");
    model.llama_4_scaling_beta = take_number(fields, field, object, "llama_4_scaling_beta", 0.0);
    object.erase("max_position_embeddings");
  }
  if (family.family == Family::gpt_oss && object.empty()) {
    fields.refuse(field, "it says nothing of the rotary embedding, which is yarn in gpt-oss", "correct config.json");
  }
  std::string kind = take_kind(fields, field, object);
  if (family.family == Family::phi3 && (kind == "su" || kind == "yarn")) kind = "longrope";  // older names
  try {
    drop_unknown(fields, kind, object, warnings);
    constexpr std::int64_t original_of_phi3 = 4096;
    complete(fields, model, kind, object, family.family == Family::phi3 ? original_of_phi3 : 0, warnings);
    object["rope_type"] = kind;
    model.rope_scaling = config::parse_rope_scaling(object.dump());
  } catch (const std::invalid_argument& expectation) {
    fields.refuse(field, std::string("expected ") + expectation.what(), "use a model with one of these, or correct it");
  }
}

}  // namespace

void read_rope(ConfigFields& fields, const FamilyDefaults& family, config::Model& model,
               std::vector<std::string>& warnings) {
  if (family.family != Family::gemma3 && family.family != Family::olmo3) {
    return read_main_rope(fields, family, model, warnings);
  }
  const json all = read_local_rope(fields, family, model);
  if (model.layer_types.empty()) model.rope_local_base_freq = 0.0;  // no layer slides
  ConfigFields of_main(all, fields.source());
  read_main_rope(of_main, family, model, warnings);
  if (model.rope_scaling.rope_type == config::RopeType::yarn && !model.rope_scaling.truncate) {
    fields.refuse(fields.has("rope_parameters") ? "rope_parameters" : "rope_scaling",
                  "truncate = false is read by version 4 of transformers and not by version 5",
                  "leave truncate out, and the range is rounded in both");
  }
  for (const char* name :
       {"rope_theta", "rope_parameters", "rope_scaling", "partial_rotary_factor", "original_max_position_embeddings"}) {
    static_cast<void>(fields.value(name));  // read
  }
}

}  // namespace sft::hub
