// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>
#include <algorithm>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "config_fields.hpp"
#include "sft/core/error.hpp"
#include "sft/hub/model_config.hpp"
#include "sft/hub/tokenizer_files.hpp"
#include "sft/io/files.hpp"

namespace sft::hub {

namespace {

std::int32_t id_of(const nlohmann::json& value, const std::string& path) {
  constexpr std::int64_t limit = std::numeric_limits<std::int32_t>::max();
  if (value.is_number_integer()) {
    const auto id = value.get<std::int64_t>();
    if (id >= 0 && id <= limit) return static_cast<std::int32_t>(id);
  }
  throw_data_error(fmt::format("eos_token_id of {} is no token", path), "it must be the id of one, or a list of ids",
                   "correct the file, or copy the model's again");
}

using nlohmann::ordered_json;

/// The object in the file, whose fields keep their order; null where there is none. A data Error where it is no object.
ordered_json read_ordered(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return nullptr;
  static_cast<void>(read_json_object(path));
  return ordered_json::parse(io::read_file(path));
}

/// The value of a field; null where it is not there.
ordered_json field(const ordered_json& object, const char* name) { return object.value(name, ordered_json()); }

/// One id or a list of them, as a list.
ordered_json as_list(const ordered_json& ids) {
  if (ids.is_array()) return ids;
  return ids.is_null() ? ordered_json::array() : ordered_json::array({ids});
}

bool holds(const ordered_json& ids, std::int32_t id) {
  const ordered_json list = as_list(ids);
  return std::ranges::any_of(list, [&](const ordered_json& each) { return each == id; });
}

/// The ids with this one first.
ordered_json with_first(std::int32_t id, const ordered_json& ids) {
  ordered_json list = ordered_json::array({id});
  for (const ordered_json& other : as_list(ids)) {
    if (other != id) list.push_back(other);
  }
  return list;
}

constexpr const char* eos_name = "eos_token_id";

void align_eos(std::int32_t eos, bool is_new, ordered_json& decoder, ordered_json& generation) {
  if (is_new) {
    decoder[eos_name] = eos;
    if (!holds(field(generation, eos_name), eos)) generation[eos_name] = with_first(eos, field(generation, eos_name));
    return;
  }
  const ordered_json of_config = field(decoder, eos_name), of_generation = field(generation, eos_name);
  if (holds(of_config, eos) && holds(of_generation, eos)) return;
  decoder[eos_name] = of_config.is_array() ? with_first(eos, of_config) : ordered_json(eos);
  generation[eos_name] = with_first(eos, of_generation);
}

constexpr const char* roles[] = {"bos_token_id", eos_name, "pad_token_id"};

/// Generation settings that transformers assumes for a folder without any.
ordered_json generation_of(const ordered_json& decoder) {
  ordered_json generation = {{"_from_model_config", true}};
  for (const char* role : roles) {
    if (const ordered_json ids = field(decoder, role); !ids.is_null()) generation[role] = ids;
  }
  return generation;
}

}  // namespace

void write_token_ids(const std::string& folder, const TokenIds& ids) {
  // 1. What the folder says
  const std::string config_path = folder + "/config.json", generation_path = folder + "/generation_config.json";
  ordered_json config = read_ordered(config_path), generation = read_ordered(generation_path);
  const bool has_config = !config.is_null(), has_generation = !generation.is_null();
  if (!has_config) config = ordered_json::object();
  const ordered_json config_before = config;
  const bool is_tower = field(config, "text_config").is_object();
  ordered_json& decoder = is_tower ? config["text_config"] : config;
  if (!has_generation) generation = generation_of(decoder);
  const ordered_json generation_before = generation;

  // 2. What the run says
  if (ids.eos) align_eos(*ids.eos, ids.is_new_eos, decoder, generation);
  if (ids.bos) decoder["bos_token_id"] = generation["bos_token_id"] = *ids.bos;
  if (ids.pad) decoder["pad_token_id"] = generation["pad_token_id"] = *ids.pad;

  // 3. The files
  if (has_config && config != config_before) io::write_file_atomically(config_path, config.dump(2) + "\n");
  const bool is_new = has_generation ? generation != generation_before : has_config;
  if (is_new) io::write_file_atomically(generation_path, generation.dump(2) + "\n");
}

std::vector<std::int32_t> read_eos_token_ids(const std::string& folder) {
  for (const char* name : {"generation_config.json", "config.json"}) {
    const std::string path = (std::filesystem::path(folder) / name).string();
    std::error_code ignored;
    if (!std::filesystem::exists(path, ignored)) continue;
    const nlohmann::json object = read_json_object(path);
    const auto found = object.find("eos_token_id");
    if (found == object.end() || found->is_null()) continue;
    if (!found->is_array()) return {id_of(*found, path)};
    std::vector<std::int32_t> ids;
    for (const nlohmann::json& value : *found) ids.push_back(id_of(value, path));
    return ids;
  }
  return {};
}

}  // namespace sft::hub
