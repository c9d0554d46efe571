// SPDX-License-Identifier: Apache-2.0
#include "weight_files.hpp"

#include <fmt/core.h>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "config_fields.hpp"
#include "sft/core/error.hpp"

namespace sft::hub {

namespace fs = std::filesystem;

namespace {

constexpr const char* single_name = "model.safetensors";
constexpr const char* index_name = "model.safetensors.index.json";

[[noreturn]] void refuse_folder(const std::string& folder) {
  std::string found = "it has neither model.safetensors nor model.safetensors.index.json";
  std::string what_to_do = "give a model folder with safetensors files";
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    if (name == "adapter_config.json") {
      found = "it is a PEFT folder with an adapter, not a model";
      what_to_do = "give the folder of the model that the adapter belongs to";
      break;
    }
    if (name.starts_with("pytorch_model") || name.ends_with(".gguf")) {
      found = "its weights are in " + name;
      what_to_do = "save the model with transformers' save_pretrained, which writes safetensors, and give that folder";
    }
  }
  throw_data_error("cannot read the weights of " + folder, found, what_to_do);
}

void require_file(const std::string& path, const std::string& why) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) throw_data_error("cannot find " + path, why, "copy or download the folder again");
}

std::vector<std::string> read_index(const std::string& folder, const std::string& path) {
  const auto refuse = [&](const std::string& why) {
    throw_data_error(path + " is no index of weights", why, "copy or download the folder again");
  };
  const nlohmann::json index = read_json_object(path);
  const auto map = index.find("weight_map");
  if (map == index.end() || !map->is_object() || map->empty()) refuse("it has no object `weight_map`");
  std::set<std::string> paths;
  for (const auto& [name, file] : map->items()) {
    if (!file.is_string()) refuse(fmt::format("the file of tensor {} is no text", name));
    const auto file_name = file.get<std::string>();
    if (file_name.empty() || fs::path(file_name).filename() != file_name || file_name == "..") {
      refuse(fmt::format("the file of tensor {}, \"{}\", is not in the folder", name, file_name));
    }
    const std::string file_path = (fs::path(folder) / file_name).string();
    if (paths.insert(file_path).second) require_file(file_path, "model.safetensors.index.json names it");
  }
  return {paths.begin(), paths.end()};
}

}  // namespace

std::vector<std::string> find_weight_files(const std::string& folder) {
  const std::string single = (fs::path(folder) / single_name).string();
  const std::string index = (fs::path(folder) / index_name).string();
  std::error_code ignored;
  if (fs::exists(single, ignored)) return {single};
  if (!fs::exists(index, ignored)) refuse_folder(folder);
  return read_index(folder, index);
}

std::vector<std::string> find_adapter_files(const std::string& folder) {
  const std::string path = (fs::path(folder) / "adapter_model.safetensors").string();
  std::error_code ignored;
  if (!fs::exists(path, ignored)) {
    throw_data_error("cannot find " + path, "an adapter in PEFT's format has its tensors there",
                     "give the folder that PEFT's save_pretrained or sft wrote, such as output/chat/adapter");
  }
  return {path};
}

}  // namespace sft::hub
