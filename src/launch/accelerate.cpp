// SPDX-License-Identifier: Apache-2.0
// Files of `accelerate launch` and of `trl sft`: names as on their command lines, some in blocks.

#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "launch/yaml.hpp"
#include "sft/config/values.hpp"

namespace sft::launch {

namespace {

/// Blocks whose names mean the same outside of them.
constexpr std::array<std::string_view, 6> blocks{"fsdp_config",        "deepspeed_config",  "parallelism_config",
                                                 "megatron_lm_config", "model_init_kwargs", "accelerator_config"};

bool is_size_1(const config::PlacedOption& setting, std::string_view size) {
  return setting.option.name.ends_with(size) && setting.option.value == "1";
}

config::PlacedOption* find(ForeignFile& file, std::string_view name) {
  const auto found = std::ranges::find_if(file.settings, [&](const config::PlacedOption& setting) {
    return setting.option.name == name || setting.option.name == fmt::format("parallelism_config_{}", name);
  });
  return found == file.settings.end() ? nullptr : &*found;
}

/// Accelerate's defaults of context parallelism, which are not those of sft: keys and values are gathered (allgather),
/// heads are exchanged by DeepSpeed's Ulysses.
void add_method(ForeignFile& file) {
  const auto has = [&](const char* name) { return find(file, name) != nullptr; };
  const auto drop = [&](const char* name) {
    std::erase_if(file.settings,
                  [&](const config::PlacedOption& setting) { return setting.option.name.ends_with(name); });
  };
  std::erase_if(file.settings,
                [](const auto& setting) { return is_size_1(setting, "sp_size") || is_size_1(setting, "cp_size"); });
  if (!has("cp_size")) drop("cp_comm_strategy");
  if (!has("sp_size")) drop("sp_backend");
  const auto add_default = [&](const char* size, const char* method, const char* fallback) {
    if (has(method) || !has(size) || config::is_none(find(file, size)->option.value.value_or(""))) return;
    add(file, fmt::format("parallelism_config_{}", method), fallback, find(file, size)->place);
  };
  const config::PlacedOption* const backend = find(file, "cp_backend");
  if (backend != nullptr && backend->option.value == "deepspeed") {  // Ulysses, as Accelerate 1.11 wrote it
    add_default("cp_size", "sp_backend", "deepspeed");
  } else {
    add_default("cp_size", "cp_comm_strategy", "allgather");
  }
  add_default("sp_size", "sp_backend", "deepspeed");
}

/// Where a name stands: what is `auto` in a block of Accelerate's is what the trainer's own options say.
enum class Level { top, block };

void add_entry(const std::string& name, const YAML::Node& key, const YAML::Node& value, Level level,
               const std::string& path, ForeignFile& file);

void add_block(const YAML::Node& map, Level level, const std::string& path, ForeignFile& file) {
  for (const auto& entry : map) add_entry(entry.first.as<std::string>(), entry.first, entry.second, level, path, file);
}

void add_entry(const std::string& name, const YAML::Node& key, const YAML::Node& value, Level level,
               const std::string& path, ForeignFile& file) {
  const std::string place = place_of(key, path);
  const bool is_list_of_files = name.ends_with("_files") && value.IsSequence();  // their names may hold blanks
  const std::string text = is_list_of_files ? json_of(value).dump() : text_of(value);
  if (value.IsMap() && std::ranges::find(blocks, name) != blocks.end())
    return add_block(value, Level::block, path, file);
  if ((name == "deepspeed_config_file" || name == "deepspeed") && is_block(value)) {
    if (value.IsMap()) return add_deepspeed(value, path, file);
    return add_deepspeed_file(text, path, file);
  }
  if (name == "seq_parallel_communication_data_type") {
    if (text == "bf16" || text == "bfloat16" || config::is_none(text)) return;
    file.refused.push_back(refusal(fmt::format("sft does not take `{} = {}` {}", name, text, place),
                                   "heads travel in the dtype of computing, train.precision", "leave it out"));
    return;
  }
  if (name.ends_with("p_seq_length_is_variable") && config::truth_of(text)) return;  // rows have one length
  if (name.ends_with("p_attn_implementation")) return;                               // there is one
  if (name == "distributed_type" && text == "NO") {
    add(file, "single_process", "true", place);
    return;
  }
  if (text == "auto" && level == Level::block && value.IsScalar()) return;
  add(file, name, text, place);
}

}  // namespace

void add_flat(const YAML::Node& map, const std::string& path, ForeignFile& file) {
  add_block(map, Level::top, path, file);
  add_method(file);
}

}  // namespace sft::launch
