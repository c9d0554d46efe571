// SPDX-License-Identifier: Apache-2.0
#include "sft/config/rope_scaling.hpp"

#include <fmt/core.h>
#include <algorithm>
#include <cmath>
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
  if (field == object.end()) refuse("a field `rope_type`: default, linear, dynamic, yarn, llama3 or longrope");
  if (!field->is_string()) refuse("a text as `rope_type`: default, linear, dynamic, yarn, llama3 or longrope");
  return field->get<std::string>();
}

void refuse_unknown_fields(const json& object, const std::string& kind, const std::vector<std::string>& known) {
  for (const auto& [name, value] : object.items()) {
    if (name == "rope_type" || name == "type") continue;
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      refuse(fmt::format("no field `{}` in rope_type \"{}\"", name, kind));
    }
  }
}

double number(const json& object, const std::string& kind, const std::string& name) {
  const auto field = object.find(name);
  if (field == object.end()) refuse(fmt::format("a field `{}` in rope_type \"{}\"", name, kind));
  if (!field->is_number()) refuse(fmt::format("a number as `{}`", name));
  return field->get<double>();
}

double number_or(const json& object, const std::string& kind, const std::string& name, double fallback) {
  return object.contains(name) ? number(object, kind, name) : fallback;
}

bool truth_or(const json& object, const std::string& name, bool fallback) {
  const auto field = object.find(name);
  if (field == object.end()) return fallback;
  if (!field->is_boolean()) refuse(fmt::format("true or false as `{}`", name));
  return field->get<bool>();
}

double factor(const json& object, const std::string& kind) {
  const double value = number(object, kind, "factor");
  if (!(value >= 1.0) || !std::isfinite(value)) refuse("a `factor` of 1 or more");
  return value;
}

std::int64_t original_length(const json& object, const std::string& kind) {
  const double length = number(object, kind, "original_max_position_embeddings");
  if (!(length >= 1 && length <= 1e15) || length != static_cast<double>(static_cast<std::int64_t>(length))) {
    refuse("a whole number above 0 as `original_max_position_embeddings`");
  }
  return static_cast<std::int64_t>(length);
}

void read_llama3(const json& object, RopeScaling& scaling) {
  scaling.low_freq_factor = number(object, "llama3", "low_freq_factor");
  scaling.high_freq_factor = number(object, "llama3", "high_freq_factor");
  if (!(scaling.low_freq_factor > 0) || !(scaling.high_freq_factor > scaling.low_freq_factor)) {
    refuse("0 < low_freq_factor < high_freq_factor");
  }
}

/// By how much YaRN scales attention logits' square root for a context `factor` times as long (Peng et al. 2023).
double yarn_scale(double factor, double mscale) { return factor <= 1 ? 1.0 : 0.1 * mscale * std::log(factor) + 1.0; }

void read_yarn(const json& object, RopeScaling& scaling) {
  scaling.beta_fast = number_or(object, "yarn", "beta_fast", scaling.beta_fast);
  scaling.beta_slow = number_or(object, "yarn", "beta_slow", scaling.beta_slow);
  if (!(scaling.beta_slow > 0) || !(scaling.beta_fast >= scaling.beta_slow)) refuse("0 < beta_slow <= beta_fast");
  scaling.truncate = truth_or(object, "truncate", true);
  const double mscale = number_or(object, "yarn", "mscale", 0.0);
  const double mscale_all_dim = number_or(object, "yarn", "mscale_all_dim", 0.0);
  const bool has_both = mscale != 0 && mscale_all_dim != 0;
  const double derived = yarn_scale(scaling.factor, has_both ? mscale : 1.0) /
                         (has_both ? yarn_scale(scaling.factor, mscale_all_dim) : 1.0);
  scaling.attention_factor = number_or(object, "yarn", "attention_factor", derived);
  if (!(scaling.attention_factor > 0) || !std::isfinite(scaling.attention_factor)) {
    refuse("an `attention_factor` above 0");
  }
}

/// Numbers above 0 to divide frequencies by.
std::vector<double> divisors(const json& object, const std::string& name) {
  const auto field = object.find(name);
  const auto is_divisor = [](const json& item) { return item.is_number() && item.get<double>() > 0; };
  if (field == object.end() || !field->is_array() || field->empty() || !std::ranges::all_of(*field, is_divisor)) {
    refuse(fmt::format("a list of numbers above 0 as `{}`", name));
  }
  return field->get<std::vector<double>>();
}

/// Ding et al. 2024.
void read_longrope(const json& object, RopeScaling& scaling) {
  scaling.short_factor = divisors(object, "short_factor");
  scaling.long_factor = divisors(object, "long_factor");
  const double length = static_cast<double>(scaling.original_max_position_embeddings);
  const double derived = scaling.factor <= 1 ? 1.0 : std::sqrt(1 + std::log(scaling.factor) / std::log(length));
  scaling.attention_factor = number_or(object, "longrope", "attention_factor", derived);
  if (!(scaling.attention_factor > 0) || !std::isfinite(scaling.attention_factor)) {
    refuse("an `attention_factor` above 0");
  }
}

/// The kinds of scaling by the names of config.json, with the fields that each may have.
struct Kind {
  const char* name;
  RopeType type;
  std::vector<std::string> fields;
};
const std::vector<Kind>& kinds() {
  static const std::vector<Kind> table{
      {"default", RopeType::plain, {}},
      {"linear", RopeType::linear, {"factor"}},
      {"dynamic", RopeType::dynamic, {"factor", "original_max_position_embeddings"}},
      {"yarn",
       RopeType::yarn,
       {"factor", "original_max_position_embeddings", "attention_factor", "beta_fast", "beta_slow", "mscale",
        "mscale_all_dim", "truncate"}},
      {"llama3",
       RopeType::llama3,
       {"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"}},
      {"longrope",
       RopeType::longrope,
       {"factor", "original_max_position_embeddings", "attention_factor", "short_factor", "long_factor"}},
  };
  return table;
}

const Kind& kind_named(const std::string& name) {
  const auto found = std::ranges::find(kinds(), name, &Kind::name);
  if (found == kinds().end()) {
    refuse(fmt::format("rope_type default, linear, dynamic, yarn, llama3 or longrope; \"{}\" is not supported", name));
  }
  return *found;
}

}  // namespace

RopeScaling parse_rope_scaling(const std::string& text) {
  RopeScaling scaling;
  if (text.empty() || text == "none" || text == "null") return scaling;
  const json object = parse_object(text);
  const Kind& kind = kind_named(kind_of(object));
  refuse_unknown_fields(object, kind.name, kind.fields);
  scaling.rope_type = kind.type;
  if (kind.type == RopeType::plain) return scaling;
  scaling.factor = factor(object, kind.name);
  if (kind.type != RopeType::linear) scaling.original_max_position_embeddings = original_length(object, kind.name);
  if (kind.type == RopeType::llama3) read_llama3(object, scaling);
  if (kind.type == RopeType::yarn) read_yarn(object, scaling);
  if (kind.type == RopeType::longrope) read_longrope(object, scaling);
  return scaling;
}

std::vector<std::string> rope_scaling_fields(const std::string& kind) { return kind_named(kind).fields; }

std::string to_json(const RopeScaling& scaling) {
  if (scaling.rope_type == RopeType::plain) return {};
  nlohmann::ordered_json object;
  object["rope_type"] = std::ranges::find(kinds(), scaling.rope_type, &Kind::type)->name;
  object["factor"] = scaling.factor;
  if (scaling.rope_type == RopeType::llama3) {
    object["low_freq_factor"] = scaling.low_freq_factor;
    object["high_freq_factor"] = scaling.high_freq_factor;
  }
  if (scaling.rope_type == RopeType::yarn) {
    object["attention_factor"] = scaling.attention_factor;
    object["beta_fast"] = scaling.beta_fast;
    object["beta_slow"] = scaling.beta_slow;
    object["truncate"] = scaling.truncate;
  }
  if (scaling.rope_type == RopeType::longrope) {
    object["attention_factor"] = scaling.attention_factor;
    object["short_factor"] = scaling.short_factor;
    object["long_factor"] = scaling.long_factor;
  }
  if (scaling.rope_type != RopeType::linear) {
    object["original_max_position_embeddings"] = scaling.original_max_position_embeddings;
  }
  return object.dump();
}

}  // namespace sft::config
