// SPDX-License-Identifier: Apache-2.0
// Axolotl's files. Its names are translated to those of TRL by a table; a few need more than another name.

#include <fmt/format.h>
#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string_view>

#include "launch/yaml.hpp"
#include "sft/config/values.hpp"
#include "sft/core/nearest.hpp"

namespace sft::launch {

namespace {

struct Meaning {
  const char* names;  ///< separated by blanks
  const char* to;     ///< the setting of the same value
};
constexpr Meaning renamed[] = {
    {"base_model", "model_name_or_path"},  {"revision_of_model", "model_revision"},
    {"sequence_len", "max_length"},        {"micro_batch_size", "per_device_train_batch_size"},
    {"num_epochs", "num_train_epochs"},    {"optimizer", "optim"},
    {"lr_scheduler", "lr_scheduler_type"}, {"dataset_prepared_path", "prepared_dir"},
    {"val_set_size", "eval_split"},        {"context_parallel_size sequence_parallel_degree", "sp_size"},
    {"tensor_parallel_size", "tp_size"},   {"peft_use_rslora", "use_rslora"},
};

/// Names that mean the same to TRL, transformers or sft.
constexpr const char* same =
    "gradient_accumulation_steps learning_rate weight_decay max_grad_norm max_steps warmup_steps warmup_ratio "
    "adam_beta1 "
    "adam_beta2 adam_epsilon lora_r lora_alpha lora_dropout output_dir logging_steps save_steps save_total_limit "
    "eval_steps "
    "save_strategy eval_strategy seed fp16 load_in_8bit load_in_4bit gradient_checkpointing "
    "gradient_checkpointing_kwargs dp_shard_size dp_replicate_size neftune_noise_alpha fsdp fsdp_config "
    "resume_from_checkpoint group_by_length lr_scheduler_kwargs torch_compile trust_remote_code fsdp_version "
    "label_smoothing_factor lora_modules_to_save activation_offloading expert_parallel_size save_safetensors "
    "include_tokens_per_second attn_implementation hub_strategy hub_revision";

/// What changes neither rows nor numbers beyond rounding, or speaks of services that nothing is sent to.
constexpr const char* harmless =
    "model_type cls_model_config tokenizer_type processor_type is_llama_derived_model flash_attention "
    "xformers_attention sdp_attention "
    "eager_attention flash_optimum sample_packing_eff_est sample_packing_group_size sample_packing_bin_size "
    "pad_to_sequence_len eval_batch_size wandb_project wandb_entity wandb_watch wandb_name wandb_log_model "
    "wandb_run_id "
    "wandb_mode mlflow_experiment_name mlflow_tracking_uri push_dataset_to_hub "
    "hf_use_auth_token "
    "local_rank debug strict ddp_timeout dataset_processes dataloader_pin_memory dataloader_num_workers "
    "dataloader_prefetch_factor low_cpu_mem_usage flash_attn_cross_entropy flash_attn_rms_norm flash_attn_fuse_mlp "
    "flash_attn_fuse_qkv liger_rope liger_rms_norm liger_glu_activation liger_fused_linear_cross_entropy "
    "liger_layer_norm liger_swiglu lora_mlp_kernel lora_qkv_kernel lora_o_kernel heads_k_stride ring_attn_func "
    "tf32 ddp_find_unused_parameters save_first_step shuffle_merged_datasets";

bool names(const std::string& list, const std::string& name) {
  std::istringstream words(list);
  return std::any_of(std::istream_iterator<std::string>(words), {},
                     [&](const std::string& word) { return word == name; });
}

bool is_off(const std::string& value) { return config::is_none(value) || config::truth_of(value) == false; }

constexpr const char* messages_of_sharegpt = R"({"role":"from","content":"value"})";

/// One entry of `datasets`, for the setting of that name.
nlohmann::ordered_json dataset_of(const YAML::Node& entry, const std::string& path, ForeignFile& file) {
  nlohmann::ordered_json dataset = nlohmann::ordered_json::object();
  const YAML::Node mappings = entry["message_property_mappings"];
  const bool is_sharegpt = mappings && text_of(mappings) == messages_of_sharegpt;
  const auto refuse = [&](const YAML::Node& node, const std::string& what, const char* why, const char* what_to_do) {
    file.refused.push_back(
        refusal(fmt::format("sft does not take `{}` of datasets {}", what, place_of(node, path)), why, what_to_do));
  };
  for (const auto& item : entry) {
    const std::string name = item.first.as<std::string>(), value = text_of(item.second);
    const std::string shown = fmt::format("{}: {}", name, value);
    if (name == "path" || name == "name" || name == "split") {
      dataset[name] = value;
    } else if (name == "data_files") {
      dataset[name] = json_of(item.second);
    } else if (name == "type") {
      if (value == "completion") {
        dataset["type"] = "completion";
      } else if (value == "chat_template") {
        add(file, "assistant_only_loss", "true", place_of(item.first, path));
      } else {
        refuse(item.first, shown, "it is a prompt written around the record, which the model here would not see",
               "write records with messages, or a prompt and a completion, and type: chat_template");
      }
    } else if (name == "field") {
      add(file, "dataset_text_field", value, place_of(item.first, path));
    } else if (name == "message_property_mappings") {
      const bool is_known = value == messages_of_sharegpt || value == R"({"role":"role","content":"content"})";
      if (!is_known) refuse(item.first, shown, "messages have role and content, or from and value", "rename them");
    } else if (name == "field_messages" && value == "conversations" && is_sharegpt) {  // are read as they are
    } else if (name == "field_messages") {
      if (value != "messages") add(file, "rename", fmt::format("{}=messages", value), place_of(item.first, path));
    } else if (name == "roles_to_train") {
      if (value != "assistant") refuse(item.first, shown, "trained on are the assistant's turns", "leave it out");
    } else if (name == "train_on_eos") {
      if (value != "turn")
        refuse(item.first, shown, "the end of each of the assistant's turns is trained on", "leave it out");
    } else if (name != "ds_type" && name != "trust_remote_code" && !is_off(value)) {
      refuse(item.first, shown, "records have the shapes of `sft-prepare --help`", "leave it out, or give --rename");
    }
  }
  return dataset;
}

void add_datasets(const YAML::Node& list, const char* setting, const std::string& place, const std::string& path,
                  ForeignFile& file) {
  nlohmann::ordered_json datasets = nlohmann::ordered_json::array();
  for (const YAML::Node& entry : list) datasets.push_back(dataset_of(entry, path, file));
  add(file, setting, datasets.dump(), place);
}

/// Names whose value has to be looked at. Whether it was one.
bool add_special(const std::string& name, const YAML::Node& node, const std::string& place, const std::string& path,
                 ForeignFile& file) {
  const std::string value = text_of(node);
  const auto refuse_unless = [&](bool is_taken, const char* why, const char* what_to_do) {
    if (!is_taken)
      file.refused.push_back(
          refusal(fmt::format("sft does not take `{}: {}` {}", name, value, place), why, what_to_do));
    return true;
  };
  if (name == "datasets" || name == "test_datasets") {
    if (node.IsSequence()) add_datasets(node, name.c_str(), place, path, file);
    return true;
  }
  if (name == "adapter") {
    if (value == "lora" || value == "qlora") add(file, "use_peft", "true", place);
    return refuse_unless(value == "lora" || value == "qlora" || is_off(value), "adapters are those of LoRA",
                         "write adapter: lora, or leave it out");
  }
  if (name == "bf16") {
    add(file, name, value == "auto" || value == "full" ? "true" : value, place);
    return refuse_unless(value != "full", "weights of bf16 alone have another name",
                         "write train.precision = pure_bf16");
  }
  if (name == "sample_packing") {
    add(file, "packing", value, place);
    if (config::truth_of(value) == true) {
      file.notes.push_back(
          fmt::format("sample_packing {}: rows are packed as TRL does it (bfd): other documents stand "
                      "in a row than with Axolotl; longer ones are cut, not dropped",
                      place));
    }
    return true;
  }
  if (name == "eval_sample_packing") return true;
  if (name == "use_dft") {
    if (config::truth_of(value) == true) add(file, "loss_type", "dft", place);
    return true;
  }
  if (name == "hub_model_id") {  // by itself says that it is sent
    if (!is_off(value)) add(file, name, value, place);
    if (!is_off(value)) add(file, "push_to_hub", "true", place);
    return true;
  }
  if (name == "lora_target_linear") {
    if (!is_off(value)) add(file, "lora_target_modules", "all-linear", place);
    return true;
  }
  if (name == "lora_target_modules" || name == "lora_target_parameters") {
    if (!is_off(value)) add(file, name, value, place);
    return true;
  }
  if (name == "deepspeed") {
    if (!is_off(value)) add_deepspeed_file(value, path, file);
    return true;
  }
  if (name == "plugins" || name == "chat_template") {
    const bool is_own = value == "tokenizer_default" || value.find("liger") != std::string::npos;
    return refuse_unless(is_own || is_off(value), "templates and kernels are the model's and sft's own",
                         "leave it out; --chat_template_path FILE gives a template");
  }
  if (name == "train_on_inputs") {
    return refuse_unless(is_off(value), "prompts are no targets where there is a completion",
                         "leave it out, or give --completion_only_loss false");
  }
  if (name == "fsdp_config" && node.IsMap()) {
    YAML::Node block;
    block[name] = node;
    add_flat(block, path, file);
    return true;
  }
  if (name == "evals_per_epoch" || name == "saves_per_epoch") {
    if (is_off(value) || value == "0") return true;
    const char* const strategy = name == "evals_per_epoch" ? "eval_strategy" : "save_strategy";
    if (value == "1") add(file, strategy, "epoch", place);
    return refuse_unless(value == "1", "only steps, or once an epoch, can be asked for",
                         "write eval_steps or save_steps; below 1 they are shares of the run");
  }
  return false;
}

void add_setting(const std::string& name, const YAML::Node& key, const YAML::Node& node, const std::string& path,
                 ForeignFile& file) {
  const std::string place = place_of(key, path);
  if (add_special(name, node, place, path, file)) return;
  const std::string value = text_of(node);
  for (const Meaning& meaning : renamed) {
    if (names(meaning.names, name)) {
      if (!is_off(value)) add(file, meaning.to, value, place);
      return;
    }
  }
  if (names(same, name)) {
    if (!config::is_none(value) || value == "false") add(file, name, value, place);
    return;
  }
  if (names(harmless, name) || is_off(value) || (node.size() == 0 && !node.IsScalar())) return;
  std::vector<std::string> known;
  std::istringstream words(fmt::format("{} {}", same, harmless));
  for (std::string word; words >> word;) known.push_back(word);
  for (const Meaning& meaning : renamed) known.emplace_back(meaning.names);
  const std::string guess = nearest(name, known);
  file.refused.push_back(refusal(
      fmt::format("sft does not take `{}: {}` {}", name, value, place), "nothing here does what Axolotl does with it",
      guess.empty() ? "leave it out" : fmt::format("leave it out; or did you mean {}?", guess)));
}

}  // namespace

void add_axolotl(const YAML::Node& map, const std::string& path, ForeignFile& file) {
  for (const auto& entry : map) add_setting(entry.first.as<std::string>(), entry.first, entry.second, path, file);
}

}  // namespace sft::launch
