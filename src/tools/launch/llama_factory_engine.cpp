// SPDX-License-Identifier: Apache-2.0
// Files of LLaMA-Factory's newer engine: a few names, and a block for each part of it.

#include <fmt/format.h>
#include <functional>

#include "launch/llama_factory.hpp"
#include "launch/table_reader.hpp"
#include "sft/config/values.hpp"

namespace sft::launch {

namespace {

constexpr Meaning engine_renamed[] = {
    {"model", "model_name_or_path"},
    {"cutoff_len", "max_length"},
    {"micro_batch_size", "per_device_train_batch_size"},
    {"enable_activation_checkpointing", "gradient_checkpointing"},
    {"global_batch_size", "train_batch_size"},
};
constexpr const char* engine_same =
    "output_dir learning_rate num_train_epochs max_steps max_grad_norm bf16 seed full_determinism save_steps "
    "save_total_limit logging_steps resume_from_checkpoint trust_remote_code";
constexpr const char* engine_harmless =
    "flash_attn kernel_config init_config sample_backend max_new_tokens batching_workers save_ckpt_as_hf";
constexpr KeyTable engine_table{"LLaMA-Factory", engine_renamed, engine_same, engine_harmless, {}};

/// Names within blocks.
constexpr Meaning renamed_of_peft[] = {{"r", "lora_r"}};
constexpr KeyTable table_of_peft{"LLaMA-Factory",
                                 renamed_of_peft,
                                 "lora_alpha lora_dropout use_rslora use_dora modules_to_save",
                                 "name infer_dtype export_dir export_size export_hub_model_id export_legacy_format",
                                 {}};
constexpr Meaning renamed_of_quantization[] = {{"double_quantization", "bnb_4bit_use_double_quant"},
                                               {"quantization_type", "bnb_4bit_quant_type"}};
constexpr KeyTable table_of_quantization{"LLaMA-Factory", renamed_of_quantization, "", "name compute_dtype", {}};
constexpr Meaning renamed_of_mesh[] = {
    {"cp_size", "sp_size"}, {"mp_replicate_size", "dp_replicate_size"}, {"mp_shard_size", "dp_shard_size"}};
constexpr KeyTable table_of_mesh{"LLaMA-Factory", renamed_of_mesh, "", "name dp_size timeout mixed_precision", {}};
constexpr Meaning renamed_of_optimizer[] = {{"lr", "learning_rate"}};
constexpr KeyTable table_of_optimizer{"LLaMA-Factory", renamed_of_optimizer, "weight_decay", "name", {}};

/// Reads the names of one file.
class EngineReader final : private TableReader {
 public:
  EngineReader(const YAML::Node& map, const std::string& path, ForeignFile& file)
      : TableReader(engine_table, map, path, file) {}

  void read() {
    read_entries();
    options_.finish(file_);
    add_defaults();
  }

 private:
  bool add_special(const Entry& entry) override { return entry.node.IsMap() ? add_block(entry) : add_value(entry); }

  bool add_value(const Entry& entry) {
    if (entry.name == "train_dataset" || entry.name == "eval_dataset") {
      const bool is_train = entry.name == "train_dataset";
      if (!is_off(entry)) add_listed_datasets(entry, is_train ? "datasets" : "test_datasets", options_, file_);
      return true;
    }
    if (entry.name == "template") {
      if (!is_off(entry)) file_.notes.push_back(note_on_template(entry));
      return true;
    }
    if (entry.name == "model_class") {
      return refuse_unless(entry.value == "llm", entry, "sft trains causal language models", "write llm");
    }
    if (entry.name == "batching_strategy") {
      return refuse_unless(
          has_name("normal padding_free", entry.value), entry,
          "a micro-batch has per_device_train_batch_size rows, which the number of tokens does not change",
          "write normal or padding_free");
    }
    if (entry.name == "save_epochs") {
      if (entry.value == "1" || entry.value == "1.0") add_as(entry, "save_strategy", "epoch");
      return refuse_unless(is_off(entry) || entry.value.starts_with('1'), entry, "only steps, or once an epoch",
                           "write save_steps");
    }
    return false;
  }

  bool add_block(const Entry& entry) {
    const YAML::Node node = entry.node["name"];
    const std::string name = node ? text_of(node) : "none";
    if (entry.name == "peft_config") {
      if (name == "lora") add_as(entry, "use_peft", "true");
      return add_block_of(entry, table_of_peft, name == "lora", "all weights are trained, or adapters of LoRA",
                          [&](const Entry& item) {
                            if (item.name != "target_modules") return false;
                            add_as(item, "lora_target_modules", item.value == "all" ? "all-linear" : item.value);
                            return true;
                          });
    }
    if (entry.name == "quant_config") {
      const auto is_four = [&](const Entry& item) {
        if (item.name != "quantization_bit") return false;
        if (item.value == "4") add_as(item, "load_in_4bit", "true");
        return refuse_unless(item.value == "4", item, "frozen matrices are kept in 4 bits, or as they are", "write 4");
      };
      return add_block_of(entry, table_of_quantization, name == "bnb" || name == "auto",
                          "matrices in 4 bits are those of bitsandbytes", is_four);
    }
    if (entry.name == "dist_config") {
      if (name == "fsdp2") add_as(entry, "zero_stage", "3");
      return add_block_of(entry, table_of_mesh, name == "fsdp2" || name == "deepspeed",
                          "ranks share a model as with FSDP2 or DeepSpeed",
                          [&](const Entry& item) { return add_mesh(item); });
    }
    if (entry.name == "optim_config") {
      if (name == "muon") add_as(entry, "optim", "muon");
      return add_block_of(entry, table_of_optimizer, name == "muon" || name == "adamw", "optimizers are those of optim",
                          [](const Entry&) { return false; });
    }
    if (entry.name == "lr_scheduler_config") {
      add_as(entry, "lr_scheduler_type", name);
      return add_block_of(entry, {"LLaMA-Factory", {}, "warmup_steps warmup_ratio", "name", {}}, true, "",
                          [](const Entry&) { return false; });
    }
    return false;
  }

  /// The names of a block. One of another kind is refused with all that it says.
  bool add_block_of(const Entry& block, const KeyTable& names, bool is_known, const char* why,
                    const std::function<bool(const Entry&)>& add_other) {
    for (Entry item : entries_of(block.node, path_)) {
      const std::string own_name = item.name;
      item.name = fmt::format("{}.{}", block.name, own_name);
      if (!is_known) {
        if (!is_off(item)) refuse(item, why, "leave the block out", file_);
        continue;
      }
      Entry plain = item;
      plain.name = own_name;
      if (add_other(plain) || add_by_table(names, plain, file_)) continue;
      refuse_unknown(names, item, file_);
    }
    return true;
  }

  bool add_mesh(const Entry& item) {
    if (item.name == "config_file") {
      if (!is_off(item)) add_deepspeed_file(item.value, path_, file_);
      return true;
    }
    if (item.name == "cp_mode") {
      if (item.value == "ulysses" || item.value == "ring") add_as(item, "sp_method", item.value);
      return refuse_unless(has_name("ulysses ring", item.value), item, "heads are exchanged, or keys go round a ring",
                           "write ulysses or ring");
    }
    return item.name == "dcp_path" && is_off(item);
  }

  void add_defaults() {
    set_default("max_length", "2048");
    set_default("per_device_train_batch_size", "1");
    set_default("learning_rate", "1e-4");
    set_default("lr_scheduler_type", "constant");
    set_default("weight_decay", "0.01");
    set_default("logging_steps", "1");
    set_default("gradient_checkpointing", "true");
    set_default("assistant_only_loss", "true");
    if (!map_["save_epochs"]) set_default("save_steps", "0");
    if (map_["quant_config"] && map_["quant_config"].IsMap()) set_default("bnb_4bit_use_double_quant", "true");
  }

  SharedOptions options_;
};

}  // namespace

void add_newer_engine(const YAML::Node& map, const std::string& path, ForeignFile& file) {
  EngineReader(map, path, file).read();
}

}  // namespace sft::launch
