// SPDX-License-Identifier: Apache-2.0
// Files of `accelerate launch` and of `trl sft`, and their command lines: the same names, some in blocks.

#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <string_view>

#include "launch/yaml.hpp"
#include "sft/config/values.hpp"

namespace sft::launch {

namespace {

/// Blocks whose names mean the same outside of them, once the prefix stands in front.
struct KnownBlock {
  std::string_view name, prefix;
};
constexpr std::array<KnownBlock, 7> blocks{{{"fsdp_config", "fsdp_"},
                                            {"deepspeed_config", ""},
                                            {"parallelism_config", ""},
                                            {"megatron_lm_config", ""},
                                            {"model_init_kwargs", ""},
                                            {"accelerator_config", ""},
                                            {"fp8_config", "fp8_"}}};

const KnownBlock* find_block(std::string_view name) {
  const auto* const found = std::ranges::find_if(blocks, [&](const KnownBlock& block) { return block.name == name; });
  return found == blocks.end() ? nullptr : found;
}

/// Whether the value is what transformers' to_dict() writes in place of any token.
bool is_redacted(const std::string& name, std::string_view value) {
  std::string upper = name;
  std::ranges::transform(upper, upper.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return name.ends_with("_token") && value == fmt::format("<{}>", upper);
}

/// Whether the name is one of DeepSpeed's files, or of what stands in one.
bool holds_deepspeed(std::string_view name) {
  return name == "deepspeed" || name == "deepspeed_config_file" || name == "hf_ds_config";
}

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

void add_block(const YAML::Node& map, Level level, const std::string& path, ForeignFile& file,
               std::string_view prefix = "") {
  for (const auto& entry : map) {
    const std::string name = entry.first.as<std::string>();
    add_entry(name.starts_with(prefix) ? name : std::string(prefix) + name, entry.first, entry.second, level, path,
              file);
  }
}

/// Adds what stands in the block, or in the file that it names. Names without a block are none of its business.
bool is_in_block(const std::string& name, const YAML::Node& value, const std::string& place, const std::string& path,
                 ForeignFile& file) {
  const KnownBlock* const known = find_block(name);
  if (known == nullptr && !holds_deepspeed(name)) return false;
  if (value.IsNull() || (value.IsScalar() && config::is_none(value.Scalar()))) return true;
  const Block block = value.IsScalar() ? block_of(value.Scalar(), path) : Block{value, path};
  if (!block.map.IsMap()) {
    file.refused.push_back(refusal_of_block(name, text_of(value), place));
  } else if (known == nullptr) {
    add_deepspeed(block.map, block.path, file);
  } else {
    add_block(block.map, Level::block, block.path, file, known->prefix);
  }
  return true;
}

/// The mixture of data sets of open-r1's and the alignment handbook's recipes, in TRL's names. They shuffle what they
/// have joined.
void add_mixture(const YAML::Node& mixture, const std::string& place, const std::string& path, ForeignFile& file) {
  for (const auto& entry : mixture) {
    const std::string name = entry.first.as<std::string>(), text = text_of(entry.second);
    if (name == "datasets" && entry.second.IsSequence()) {
      nlohmann::ordered_json datasets = json_of(entry.second);
      for (nlohmann::ordered_json& dataset : datasets) {
        for (const auto& [theirs, ours] : {std::pair("id", "path"), std::pair("config", "name")}) {
          if (!dataset.is_object() || !dataset.contains(theirs)) continue;
          const nlohmann::ordered_json value = dataset[theirs];
          dataset.erase(theirs);
          dataset[ours] = value;
        }
        const bool is_whole = dataset.is_object() && dataset.contains("weight") && dataset["weight"] == 1.0;
        if (is_whole) dataset.erase("weight");
      }
      add(file, "datasets", datasets.dump(), place_of(entry.first, path));
    } else if (name == "test_split_size" || name == "streaming") {
      add(file, name, text, place_of(entry.first, path));
    } else if (name != "seed") {
      file.refused.push_back(refusal(fmt::format("sft does not take `dataset_mixture.{}` {}", name, place),
                                     "a mixture has datasets, seed and test_split_size", "leave it out"));
    }
  }
  add(file, "shuffle_dataset", "true", place);
  file.notes.push_back(fmt::format("dataset_mixture {}: records are shuffled by the seed of the run", place));
}

void add_entry(const std::string& name, const YAML::Node& key, const YAML::Node& value, Level level,
               const std::string& path, ForeignFile& file) {
  const std::string place = place_of(key, path);
  if (name == "dataset_mixture" && value.IsMap()) return add_mixture(value, place, path, file);
  const bool is_list_of_files = name.ends_with("_files") && value.IsSequence();  // their names may hold blanks
  const std::string text = is_list_of_files ? json_of(value).dump() : text_of(value);
  if (is_in_block(name, value, place, path, file)) return;
  if (is_redacted(name, text)) return;
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
  const bool is_handler = name == "cp_handler" || name == "sp_handler" || name == "tp_handler";
  if (is_handler && value.IsMap()) return add_block(value, level, path, file);
  const bool is_of_model = name == "dtype" || name == "torch_dtype" || name == "device_map";
  if (text == "auto" && level == Level::block && value.IsScalar() && !is_of_model) return;
  add(file, name, text, place);
}

}  // namespace

ForeignFile lay_flat(const std::vector<config::PlacedOption>& options) {
  ForeignFile flat, parallelism;
  for (const config::PlacedOption& placed : options) {
    const std::string& name = placed.option.name;
    ForeignFile inner;
    const YAML::Node value(placed.option.value.value_or(""));
    if (!placed.option.value || !is_in_block(name, value, placed.place, "", inner)) {
      (name.starts_with("parallelism_config_") ? parallelism : flat).settings.push_back(placed);
      continue;
    }
    for (config::PlacedOption& setting : inner.settings) {
      if (setting.place == "on the command line") setting.place = fmt::format("in {} {}", name, placed.place);
      (name == "parallelism_config" ? parallelism : flat).settings.push_back(setting);
    }
    flat.refused.insert(flat.refused.end(), inner.refused.begin(), inner.refused.end());
  }
  add_method(parallelism);
  flat.settings.insert(flat.settings.end(), parallelism.settings.begin(), parallelism.settings.end());
  return flat;
}

void add_flat(const YAML::Node& map, const std::string& path, ForeignFile& file) {
  add_block(map, Level::top, path, file);
  add_method(file);
}

}  // namespace sft::launch
