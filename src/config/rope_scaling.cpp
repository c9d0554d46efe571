// SPDX-License-Identifier: Apache-2.0
#include "config/rope_scaling.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <vector>

namespace sft::config {

namespace {

using nlohmann::json;

[[noreturn]] void refuse(const std::string& what) { throw std::invalid_argument(what); }

json parse_object(const std::string& text) {
  json object = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) {
    refuse(R"(a JSON object on one line, such as {"rope_type": "linear", "factor": 4.0}, or nothing)");
  }
  return object;
}

std::string kind_of(const json& object) {
  const auto field = object.contains("rope_type") ? object.find("rope_type") : object.find("type");
  if (field == object.end()) refuse("a field `rope_type`: default, linear or llama3");
  if (!field->is_string()) refuse("a text as `rope_type`: default, linear or llama3");
  return field->get<std::string>();
}

void refuse_unknown_fields(const json& object, const std::string& kind, const std::vector<std::string>& known) {
  for (const auto& [name, value] : object.items()) {
    if (name == "rope_type" || name == "type") continue;
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      refuse("no field `" + name + "` in rope_type \"" + kind + "\"");
    }
  }
}

double number(const json& object, const std::string& kind, const std::string& name) {
  const auto field = object.find(name);
  if (field == object.end()) refuse("a field `" + name + "` in rope_type \"" + kind + "\"");
  if (!field->is_number()) refuse("a number as `" + name + "`");
  return field->get<double>();
}

double factor(const json& object, const std::string& kind) {
  const double value = number(object, kind, "factor");
  if (value < 1.0) refuse("a `factor` of 1 or more");
  return value;
}

}  // namespace

RopeScaling parse_rope_scaling(const std::string& text) {
  RopeScaling scaling;
  if (text.empty() || text == "none" || text == "null") return scaling;
  const json object = parse_object(text);
  const std::string kind = kind_of(object);
  if (kind == "default") {
    refuse_unknown_fields(object, kind, {});
  } else if (kind == "linear") {
    refuse_unknown_fields(object, kind, {"factor"});
    scaling.rope_type = RopeType::linear;
    scaling.factor = factor(object, kind);
  } else if (kind == "llama3") {
    refuse_unknown_fields(object, kind,
                          {"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"});
    scaling.rope_type = RopeType::llama3;
    scaling.factor = factor(object, kind);
    scaling.low_freq_factor = number(object, kind, "low_freq_factor");
    scaling.high_freq_factor = number(object, kind, "high_freq_factor");
    const double original = number(object, kind, "original_max_position_embeddings");
    if (!(scaling.low_freq_factor > 0) || !(scaling.high_freq_factor > scaling.low_freq_factor)) {
      refuse("0 < low_freq_factor < high_freq_factor");
    }
    if (!(original >= 1 && original <= 1e15) || original != static_cast<double>(static_cast<std::int64_t>(original))) {
      refuse("a whole number above 0 as `original_max_position_embeddings`");
    }
    scaling.original_max_position_embeddings = static_cast<std::int64_t>(original);
  } else {
    refuse("rope_type default, linear or llama3; \"" + kind + "\" is not supported");
  }
  return scaling;
}

std::string to_json(const RopeScaling& scaling) {
  if (scaling.rope_type == RopeType::plain) return {};
  nlohmann::ordered_json object;
  object["rope_type"] = scaling.rope_type == RopeType::linear ? "linear" : "llama3";
  object["factor"] = scaling.factor;
  if (scaling.rope_type == RopeType::llama3) {
    object["low_freq_factor"] = scaling.low_freq_factor;
    object["high_freq_factor"] = scaling.high_freq_factor;
    object["original_max_position_embeddings"] = scaling.original_max_position_embeddings;
  }
  return object.dump();
}

}  // namespace sft::config
