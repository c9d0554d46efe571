// SPDX-License-Identifier: Apache-2.0
#include "sft/launch/foreign_file.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <filesystem>

#include "launch/yaml.hpp"
#include "sft/core/error.hpp"
#include "sft/core/nearest.hpp"

namespace sft::launch {

namespace fs = std::filesystem;

namespace {

bool has_any(const YAML::Node& map, std::initializer_list<const char*> names) {
  return std::ranges::any_of(names, [&](const char* name) { return map[name].IsDefined(); });
}

}  // namespace

bool is_foreign_file(const std::string& path) {
  return path.ends_with(".yaml") || path.ends_with(".yml") || path.ends_with(".json");
}

ForeignFile read_foreign_file(const std::string& path) {
  const YAML::Node map = load_map(path);
  ForeignFile file;
  if (has_any(map, {"base_model"})) {
    add_axolotl(map, path, file);
  } else if (has_any(map, {"finetuning_type", "stage", "cutoff_len", "dist_config"})) {
    add_llama_factory(map, path, file);
  } else if (has_any(map, {"zero_optimization", "train_micro_batch_size_per_gpu"})) {
    add_deepspeed(map, path, file);
  } else {
    add_flat(map, path, file);
  }
  return file;
}

std::string find_profile(const std::string& name, const std::string& folder) {
  std::error_code ignored;
  if (is_foreign_file(name) && fs::exists(name, ignored)) return name;
  const fs::path file = fs::path(folder) / (name + ".yaml");
  if (name.find('/') == std::string::npos && fs::exists(file, ignored)) return file.string();
  std::vector<std::string> known;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored)) {
    if (entry.path().extension() == ".yaml") known.push_back(entry.path().stem().string());
  }
  std::ranges::sort(known);
  const std::string guess = nearest(name, known);
  throw_config_error(
      fmt::format("there is no accelerate_config `{}`", name),
      fmt::format("it is neither a file nor one of {}", fmt::join(known, ", ")),
      guess.empty() ? "give a YAML file of Accelerate, or one of these names" : fmt::format("did you mean {}?", guess));
}

}  // namespace sft::launch
