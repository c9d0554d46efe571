// SPDX-License-Identifier: Apache-2.0
#include "sft/hub/model_config.hpp"

#include <fmt/core.h>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "config_fields.hpp"
#include "sft/core/error.hpp"

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

}  // namespace

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
