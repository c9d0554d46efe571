// SPDX-License-Identifier: Apache-2.0
// Axolotl's files. Its names are translated to those of TRL by tables; a few need more than another name.

#include "launch/axolotl.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <set>
#include <vector>

#include "launch/table_reader.hpp"
#include "sft/config/values.hpp"

namespace sft::launch {

namespace {

/// Plugins that sft needs none for: their kernels and their services are its own.
constexpr const char* needless_plugins =
    "LigerPlugin CutCrossEntropyPlugin KernelsPlugin ExpertParallelPlugin SwanLabPlugin";

/// Reads the names of one file.
class AxolotlReader final : private TableReader {
 public:
  AxolotlReader(const YAML::Node& map, const std::string& path, ForeignFile& file)
      : TableReader(axolotl_table(), map, path, file) {}

  void read() {
    read_entries();
    add_axolotl_data(map_, path_, file_);
    add_reports();
    add_defaults();
    drop_repeated(file_);
  }

 private:
  bool add_special(const Entry& entry) override {
    if (entry.name == "datasets" || entry.name == "test_datasets" || entry.name == "eot_tokens") return true;
    return add_precision(entry) || add_adapters(entry) || add_schedule(entry) || add_tokens(entry) || add_rest(entry);
  }

  [[nodiscard]] bool evaluates() const {
    return number_of("val_set_size", 0.0) > 0.0 || (map_["test_datasets"] && map_["test_datasets"].size() > 0);
  }
  bool add_precision(const Entry& entry) {
    if (entry.name == "bf16") {
      if (entry.value == "full") return add_where_on(entry, "train.precision", "pure_bf16");
      add_as(entry, "bf16", entry.value == "auto" ? "true" : entry.value);
      return true;
    }
    if (entry.name == "bfloat16") return add_where_on(entry, "bf16", "true");
    if (entry.name == "fp8") return add_where_on(entry, "train.fp8", "tensorwise");
    if (entry.name == "gradient_checkpointing") {
      const YAML::Node block = map_["fsdp_config"];
      const bool is_said = block && block.IsMap() && is_off(entry) &&
                           (block["activation_checkpointing"] || block["fsdp_activation_checkpointing"]);
      if (is_said) return true;
      const bool offloads = entry.value == "offload" || entry.value == "offload_disk" || entry.value == "unsloth";
      add_as(entry, "gradient_checkpointing", offloads ? "true" : entry.value);
      if (offloads) add_as(entry, "activation_offloading", "true");
      return true;
    }
    if (entry.name == "activation_offloading") return add_where_on(entry, "activation_offloading", "true");
    if (entry.name == "tiled_mlp") return add_where_on(entry, "train.mlp_tile_tokens", "8192");
    if (entry.name == "model_quantization_config") {  // gpt-oss, whose weights are published in 4 bits
      const YAML::Node kwargs = map_["model_quantization_config_kwargs"];
      const bool is_undone =
          kwargs && kwargs.IsMap() && kwargs["dequantize"] && text_of(kwargs["dequantize"]) == "true";
      return refuse_unless(is_off(entry) || is_undone, entry, no_other_adapters,
                           "write model_quantization_config_kwargs with dequantize: true");
    }
    return entry.name == "model_quantization_config_kwargs";
  }

  bool add_adapters(const Entry& entry) {
    if (entry.name == "adapter") {
      const bool is_lora = entry.value == "lora" || entry.value == "qlora";
      if (is_lora) add_as(entry, "use_peft", "true");
      return refuse_unless(is_lora || is_off(entry), entry, no_other_adapters, "write adapter: lora, or leave it out");
    }
    if (entry.name == "unfrozen_parameters") {
      return refuse_unless(is_off(entry) || is_whole_model(entry.node), entry, all_or_adapters,
                           "leave it out, or write adapter: lora with lora_modules_to_save");
    }
    if (entry.name == "lora_target_linear") return add_where_on(entry, "lora_target_modules", "all-linear");
    if (entry.name == "lora_target_modules" || entry.name == "lora_target_parameters") {
      const bool is_covered = entry.name == "lora_target_modules" && is_on("lora_target_linear");
      if (is_covered || is_off(entry)) return true;
      const NamedModules modules = modules_of(entry.value);
      add_as(entry, entry.name.c_str(), modules.names);
      if (modules.passed_over.empty()) return true;
      return note(entry,
                  fmt::format("no layer here is called {}: PEFT passes over such names, too", modules.passed_over));
    }
    if (entry.name == "bnb_config_kwargs" && entry.node.IsMap()) {
      for (Entry& item : entries_of(entry.node, path_)) {
        const bool is_taken = has_name("bnb_4bit_* llm_int8_skip_modules", item.name);
        if (is_taken) add(file_, item.name, item.value, item.place);
        refuse_unless(is_taken || is_off(item), item, "matrices in 4 bits have a code and scales", "leave it out");
      }
      return true;
    }
    return false;
  }

  bool add_schedule(const Entry& entry) {
    if (entry.name == "optimizer") {
      const bool is_of_torchao = entry.value == "adamw_torch_8bit" || entry.value == "ao_adamw_8bit";
      const bool is_of_4_bits = entry.value == "adamw_torch_4bit" || entry.value == "ao_adamw_4bit";
      if (!is_off(entry)) add_as(entry, "optim", is_of_torchao || is_of_4_bits ? "adamw_8bit" : entry.value);
      if (is_of_4_bits) {
        note(entry, "moments are kept in 8 bits, because there are none in 4: 2 bytes for each trained weight, not 1");
      }
      if (is_of_torchao) note(entry, "moments are kept in 8 bits as bitsandbytes rounds them, not as torchao does");
      return true;
    }
    if (entry.name == "lr_scheduler") {
      const bool has_least = is_on("cosine_min_lr_ratio") && entry.value == "cosine";
      if (!is_off(entry)) add_as(entry, "lr_scheduler_type", has_least ? "cosine_with_min_lr" : entry.value);
      if (has_least) {
        add_as(entry, "lr_scheduler_kwargs", fmt::format(R"({{"min_lr_rate": {}}})", value_of("cosine_min_lr_ratio")));
      }
      return true;
    }
    if (entry.name == "cosine_min_lr_ratio") return true;
    if (entry.name == "lr_quadratic_warmup" || entry.name == "cosine_constant_lr_ratio") {  // of the cosine alone
      const bool has_effect = number_of(entry.name.c_str(), 1.0) > 0.0 && value_of("lr_scheduler") == "cosine";
      return refuse_unless(is_off(entry) || !has_effect, entry,
                           "the warm-up is a line, and the cosine falls to the end",
                           "leave it out, or write lr_scheduler_kwargs");
    }
    if (entry.name == "warmup_steps" || entry.name == "warmup_ratio") {
      if (value_of("lr_scheduler") == "constant") return true;  // which has no warm-up there, either
      if (!config::is_none(entry.value)) add_as(entry, entry.name.c_str(), entry.value);
      return true;
    }
    if (entry.name == "evals_per_epoch" || entry.name == "saves_per_epoch") {
      const bool is_save = entry.name == "saves_per_epoch";
      if (!is_off(entry) && is_on(is_save ? "save_steps" : "eval_steps")) {
        refuse(entry, fmt::format("{} says how often, too", is_save ? "save_steps" : "eval_steps"),
               "leave one of them out", file_);
        return true;
      }
      const double times = number_of(entry.name.c_str(), 0.0) * number_of("num_epochs", 1.0);
      const bool counts = times > 1.0 && (is_save || evaluates());
      if (counts) add_as(entry, is_save ? "save_steps" : "eval_steps", fmt::format("{}", 1.0 / times));
      return true;
    }
    if (entry.name == "batch_size") {  // of all micro-batches, where their number is not given
      const double steps = number_of("batch_size", 0.0) / number_of("micro_batch_size", 1.0);
      if (is_on("gradient_accumulation_steps") || is_off(entry)) return true;
      add_as(entry, "gradient_accumulation_steps", fmt::format("{}", std::max(1, static_cast<int>(steps))));
      return true;
    }
    if (entry.name == "optim_args" && entry.node.IsMap() && entry.node.size() == 1 &&
        entry.node["bf16_stochastic_round"]) {
      return note(entry, "weights are updated in float32, which needs no such rounding");
    }
    if (entry.name == "do_causal_lm_eval") {
      return note(entry, "evaluation is the loss on held-back rows, whose exponential is the perplexity");
    }
    if (entry.name == "curriculum_sampling") return add_where_on(entry, "data.shuffle", "false");
    if (entry.name == "auto_resume_from_checkpoints") return add_where_on(entry, "resume_from_checkpoint", "auto");
    if (entry.name == "val_set_size") {
      if (number_of("val_set_size", 0.0) > 0.0) add_as(entry, "eval_split", entry.value);
      return true;
    }
    if (entry.name == "use_dft") return add_where_on(entry, "loss_type", "dft");
    return false;
  }

  bool add_tokens(const Entry& entry) {
    if (entry.name == "special_tokens" || (entry.name == "tokens" && entry.node.IsMap())) {
      for (const Entry& token : entries_of(entry.node, path_)) {
        if (token.name == "eos_token" && !is_off(token)) add(file_, "eos_token", token.value, token.place);
        if (token.name == "pad_token" && !is_off(token)) add(file_, "known_pad_token", token.value, token.place);
        if (token.name == "bos_token" || token.name == "unk_token") note(token, "the tokenizer's own is taken");
        if (token.name == "additional_special_tokens" && !is_off(token)) {
          refuse(token, "the vocabulary is that of the model", "take a model that has them", file_);
        }
      }
      return true;
    }
    if (entry.name == "tokens" || entry.name == "added_tokens_overrides") {
      return refuse_unless(is_off(entry), entry, "the vocabulary is that of the model", "take a model that has them");
    }
    if (entry.name == "resize_token_embeddings_to_32x") return note(entry, "the embedding keeps its rows");
    if (entry.name == "tokenizer_use_mistral_common") {
      return note(entry, "tokens are those of the folder's tokenizer.json, and conversations those of its template");
    }
    if (entry.name == "chat_template") {
      const YAML::Node jinja = map_["chat_template_jinja"];
      const bool is_own = is_off(entry) || entry.value.starts_with("tokenizer_default");
      if (entry.value == "jinja" && jinja && text_of(jinja).find('{') == std::string::npos) {
        add_as(entry, "chat_template_path", text_of(jinja));
      } else if (entry.value == "jinja" && jinja) {
        add_as(entry, "chat_template", text_of(jinja));
      } else if (entry.value == "jinja") {
        refuse(entry, "no template is there", "write it, or a file of it, under chat_template_jinja", file_);
      } else if (!is_own) {
        file_.notes.push_back(note_on_template(entry));
      }
      return true;
    }
    return entry.name == "chat_template_jinja" || entry.name == "train_on_inputs";
  }

  bool add_rest(const Entry& entry) {
    if (entry.name == "sample_packing") {
      add_as(entry, "packing", is_off(entry) ? "false" : "true");
      return note(entry,
                  "rows are packed as TRL does it (bfd): other documents stand in a row than with Axolotl; longer ones "
                  "are cut, not dropped");
    }
    if (entry.name == "excess_length_strategy") {
      return refuse_unless(is_off(entry) || entry.value == "truncate", entry,
                           "documents that are longer than sequence_len are cut there, which is truncate",
                           "write truncate, or leave out such records before");
    }
    if (entry.name == "hub_model_id") {  // by itself says that it is sent
      add_where_on(entry, "hub_model_id", entry.value);
      return add_where_on(entry, "push_to_hub", "true");
    }
    if (entry.name == "fsdp") {  // the words, unless the block says it
      const YAML::Node block = map_["fsdp_config"];
      const bool is_said = block && block.IsMap() && (block["fsdp_sharding_strategy"] || block["sharding_strategy"]);
      return is_said || add_where_on(entry, "fsdp", entry.value);
    }
    if (entry.name == "deepspeed") {
      if (!is_off(entry)) add_deepspeed_file(entry.value, path_, file_);
      return true;
    }
    if (entry.name == "fsdp_config" && entry.node.IsMap()) {
      ForeignFile block;  // of its own, because it says nothing of how rows are shared
      add_flat(entry.node, path_, block);
      const bool checkpoints = is_on("gradient_checkpointing");
      std::erase_if(block.settings, [&](const auto& setting) {  // what the file says by another name as well
        const std::string& name = setting.option.name;
        return name.ends_with("final_state_dict_type") || (checkpoints && name.ends_with("activation_checkpointing"));
      });
      file_.settings.insert(file_.settings.end(), block.settings.begin(), block.settings.end());
      file_.refused.insert(file_.refused.end(), block.refused.begin(), block.refused.end());
      return true;
    }
    if (entry.name == "plugins") {
      for (const YAML::Node& plugin : entry.node) {
        const std::string name = plugin.Scalar();
        if (has_name(needless_plugins, name.substr(name.rfind('.') + 1))) continue;
        refuse({"plugins", plugin, name, place_of(plugin, path_)}, "sft has no plugins", "leave it out", file_);
      }
      return true;
    }
    if (entry.name == "model_config" && entry.node.IsMap()) {
      for (const Entry& item : entries_of(entry.node, path_)) {
        const bool is_taken = has_name("output_router_logits router_aux_loss_coef", item.name);
        if (is_taken) add(file_, item.name, item.value, item.place);
        refuse_unless(is_taken, item, "the model is what its config.json says", "change it there");
      }
      return true;
    }
    if (entry.name == "model_type" && entry.value.find("Classification") != std::string::npos) {
      return refuse_unless(false, entry, only_next_token, "take a causal language model");
    }
    return false;
  }

  /// Services that metrics are sent to.
  void add_reports() {
    std::set<std::string> services;
    const bool is_wandb_off = map_["use_wandb"] && !is_on("use_wandb");
    if (is_on("wandb_project") && !is_wandb_off && value_of("wandb_mode") != "disabled") services.insert("wandb");
    if (is_on("use_mlflow") || is_on("mlflow_tracking_uri")) services.insert("mlflow");
    if (is_on("use_trackio") || is_on("trackio_project_name")) services.insert("trackio");
    if (is_on("use_swanlab")) services.insert("swanlab");
    if (is_on("use_tensorboard")) services.insert("tensorboard");
    if (!services.empty()) add(file_, "report_to", fmt::format("{}", fmt::join(services, " ")), "in " + path_);
  }

  void add_defaults() {
    const auto is_given = [&](const char* name) {
      return std::ranges::any_of(file_.settings, [&](const auto& setting) { return setting.option.name == name; });
    };
    set_default("max_length", "512");
    set_default("per_device_train_batch_size", "1");
    set_default("num_train_epochs", "1");
    set_default("lr_scheduler_type", "cosine");
    if (is_on("adapter")) set_default("lora_dropout", "0");
    if (is_on("adapter") && is_on("load_in_4bit")) set_default("bnb_4bit_use_double_quant", "true");
    if (!is_given("warmup_steps") && value_of("lr_scheduler") != "constant") set_default("warmup_ratio", "0.03");
    if (is_given("activation_offloading")) {  // on cores, whose memory is that of the activations
      set_default("offload_folder", fmt::format("{}/offload", value_of("output_dir")));
    }
    if (is_on("early_stopping_patience") && evaluates()) set_default("metric_for_best_model", "loss");
    if (!is_given("save_steps")) set_default("save_strategy", "epoch");
    const bool says_when = is_given("eval_steps") || is_given("evaluation_strategy");
    if (evaluates() && !says_when) set_default("eval_strategy", "epoch");
  }
};

}  // namespace

void add_axolotl(const YAML::Node& map, const std::string& path, ForeignFile& file) {
  AxolotlReader(map, path, file).read();
}

}  // namespace sft::launch
