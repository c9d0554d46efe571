// SPDX-License-Identifier: Apache-2.0
#include "config_fields.hpp"

#include <fmt/core.h>
#include <filesystem>

#include "sft/core/error.hpp"
#include "sft/io/files.hpp"

namespace sft::hub {

namespace {

constexpr std::uintmax_t max_bytes = 64U << 20U;
constexpr int max_depth = 32;

}  // namespace

nlohmann::json parse_json_object(const std::string& text, const std::string& source) {
  using nlohmann::json;
  bool is_too_deep = false;
  json value = json::parse(
      text,
      [&](int depth, json::parse_event_t, json&) {
        is_too_deep = is_too_deep || depth > max_depth;
        return !is_too_deep;
      },
      /*allow_exceptions=*/false);
  if (is_too_deep || !value.is_object()) {
    throw_data_error("cannot read " + source, is_too_deep ? "it is nested too deeply" : "it is no JSON object",
                     "copy or download the file again");
  }
  return value;
}

nlohmann::json read_json_object(const std::string& path) {
  std::error_code error;
  const std::uintmax_t size = std::filesystem::file_size(path, error);
  if (!error && size > max_bytes) {
    throw_data_error("cannot read " + path, fmt::format("it has {} bytes, far more than such a file needs", size),
                     "copy or download the file again");
  }
  return parse_json_object(io::read_file(path), path);
}

bool is_tower_config(const nlohmann::json& config) {
  const auto text = config.find("text_config");
  return text != config.end() && text->is_object();
}

const nlohmann::json& decoder_config(const nlohmann::json& config) {
  return is_tower_config(config) ? config.at("text_config") : config;
}

}  // namespace sft::hub
