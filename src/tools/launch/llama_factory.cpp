// SPDX-License-Identifier: Apache-2.0
// LLaMA-Factory's files. Beside its own names, which tables translate, they have those of transformers.

#include "launch/llama_factory.hpp"

#include <fmt/format.h>
#include <filesystem>
#include <stdexcept>

#include "launch/table_reader.hpp"
#include "sft/config/values.hpp"

namespace sft::launch {

namespace {

constexpr Meaning factory_renamed[] = {
    {"cutoff_len", "max_length"},
    {"lora_rank", "lora_r"},
    {"quantization_type", "bnb_4bit_quant_type"},
    {"double_quantization", "bnb_4bit_use_double_quant"},
    {"moe_aux_loss_coef", "router_aux_loss_coef"},
    {"early_stopping_steps", "early_stopping_patience"},
    {"ray_num_workers", "num_processes"},
    {"tensor_model_parallel_size", "tp_size"},
    {"expert_model_parallel_size", "ep_size"},
    {"context_parallel_size", "sp_size"},
};

constexpr const char* factory_same = "";  // all other names are those of transformers and go on as they are

constexpr const char* factory_harmless =
    "do_train overwrite_cache overwrite_output_dir preprocessing_num_workers preprocessing_batch_size "
    "data_shared_file_system media_dir buffer_size plot_loss compute_accuracy ignore_pad_token_for_loss "
    "include_effective_tokens_per_second print_param_status use_fast_tokenizer low_cpu_mem_usage flash_attn "
    "use_unsloth "
    "use_v1_kernels enable_liger_kernel use_reentrant_gc upcast_layernorm upcast_lmhead_output use_kv_cache infer_* "
    "vllm_* sglang_* export_* eval_num_beams ray_* use_ray master_addr master_port swanlab_* fp8_backend "
    "fp8_enable_fsdp_float8_all_gather freeze_vision_tower freeze_multi_modal_projector image_* video_* audio_* "
    "crop_to_patches use_audio_in_video quantization_device_map cache_dir profiler_* use_mca kt_* badam_verbose "
    "bias_activation_fusion apply_rope_fusion overlap_param_gather overlap_grad_reduce moe_grouped_gemm "
    "moe_token_dispatcher_type";

constexpr const char* no_such_optimizer = "optimizers are AdamW, also in 8 bits, Adafactor, Lion, Muon and SGD";
constexpr Impossible factory_impossible[] = {
    {"use_galore galore_* use_apollo apollo_* use_badam badam_* use_adam_mini", no_such_optimizer,
     "leave it out, and write optim: adamw_8bit, adafactor or lion to save memory"},
    {"use_asft_loss asft_* use_eaft_loss eaft_*", "the loss of a token is nll, or dft",
     "leave it out, or write use_dft_loss: true"},
    {"mixture_of_depths shift_attn rope_scaling train_from_scratch",
     "the model is what its config.json says, with its weights", "change it there, or leave it out"},
    {"freeze_trainable_* freeze_extra_modules use_llama_pro freeze_language_model",
     "all weights are trained, or adapters and whole modules beside them",
     "write finetuning_type: lora, with additional_target"},
    {"oft_* module_dropout", "adapters are those of LoRA", "write finetuning_type: lora"},
    {"adapter_name_or_path adapter_folder create_new_adapter",
     "a run begins with new adapters, or where it was stopped",
     "merge the adapter into the model before, or write resume_from_checkpoint"},
    {"resize_vocab add_tokens add_special_tokens new_special_tokens_config init_special_tokens split_special_tokens",
     "the vocabulary is that of the model", "take a model that has them"},
    {"mask_history", "all answers of a conversation are trained on",
     "leave it out, or cut conversations in the records"},
    {"mix_strategy interleave_probs", "data sets follow one another",
     "write mix_strategy: concat; sft-prepare --input_weight mixes them"},
    {"streaming", "records pass through memory one by one anyway", "leave it out"},
    {"default_system tool_format enable_thinking preserve_thinking",
     "conversations are written by the chat template of the model's folder",
     "give such a template with --chat_template_path FILE"},
    {"eval_on_each_dataset", "evaluation is over all held-back rows together", "leave it out"},
    {"do_predict predict_with_generate", "sft trains, and does nothing else", "use sft-generate on a checkpoint"},
    {"enable_torch_profiler profile_modules", "its name here is profile_steps", "write train.profile_steps = 3-5"},
    {"hf_hub_token ms_hub_token om_hub_token", "tokens are not kept in files", "set HF_TOKEN"},
    {"use_hyper_parallel hyper_parallel_args", "the mesh is that of dp, ep, sp and tp", "leave it out"},
    {"pipeline_model_parallel_size virtual_pipeline_model_parallel_size",
     "layers are not dealt to ranks: what does not fit is sharded",
     "leave it out, with deepspeed or fsdp in its place"},
    {"pref_* ref_model* reward_model* ppo_* kto_* simpo_* dpo_* ld_alpha", "sft trains on answers, not on preferences",
     "leave it out"},
};

constexpr KeyTable factory_table{"LLaMA-Factory", factory_renamed, factory_same, factory_harmless, factory_impossible};

/// Reads the names of one file.
class FactoryReader final : private TableReader {
 public:
  FactoryReader(const YAML::Node& map, const std::string& path, ForeignFile& file)
      : TableReader(factory_table, map, path, file) {}

  void read() {
    read_entries();
    options_.finish(file_);
    add_defaults();
    drop_repeated(file_);
  }

 private:
  bool add_special(const Entry& entry) override { return add_method(entry) || add_data(entry) || add_memory(entry); }

  /// Names of transformers, and blocks of Accelerate.
  void add_unknown(const Entry& entry) override {
    YAML::Node one;
    one[map_key(entry)] = entry.node;
    add_flat(one, path_, file_);
  }
  /// The key of the entry as it stands in the file, so that refusals have its line.
  [[nodiscard]] YAML::Node map_key(const Entry& entry) const {
    for (const auto& item : map_) {
      if (item.first.as<std::string>() == entry.name) return item.first;
    }
    return YAML::Node(entry.name);
  }

  bool add_method(const Entry& entry) {
    if (entry.name == "stage") {
      return refuse_unless(entry.value == "sft", entry, "sft is supervised fine-tuning", "write stage: sft");
    }
    if (entry.name == "finetuning_type") {
      if (entry.value == "lora") add_as(entry, "use_peft", "true");
      return refuse_unless(entry.value == "lora" || entry.value == "full", entry,
                           "all weights are trained, or adapters of LoRA", "write full or lora");
    }
    if (entry.name == "lora_target") {
      return add_where_on(entry, "lora_target_modules", entry.value == "all" ? "all-linear" : entry.value);
    }
    if (entry.name == "additional_target") return add_where_on(entry, "modules_to_save", entry.value);
    if (entry.name == "pissa_init") {
      const std::string iterations = value_of("pissa_iter", "16");
      const std::string init = iterations == "-1" ? "pissa" : fmt::format("pissa_niter_{}", iterations);
      return add_where_on(entry, "init_lora_weights", init);
    }
    if (entry.name == "pissa_convert") {
      if (!is_off(entry)) {
        file_.notes.push_back(
            fmt::format("pissa_convert {}: an exported adapter fits the model as it was in any case", entry.place));
      }
      return true;
    }
    if (entry.name == "loraplus_lr_embedding") {
      return refuse_unless(entry.value == "1e-6" || entry.value == "1e-06" || is_off(entry), entry,
                           "modules that are trained whole have the rate of A", "leave it out");
    }
    if (entry.name == "use_muon") return add_where_on(entry, "optim", "muon");
    if (entry.name == "use_dft_loss") return add_where_on(entry, "loss_type", "dft");
    if (entry.name == "use_swanlab") return add_where_on(entry, "report_to", "swanlab");
    if (entry.name == "disable_shuffling") return add_where_on(entry, "data.shuffle", "false");
    return entry.name == "pissa_iter";
  }

  bool add_data(const Entry& entry) {
    if (entry.name == "dataset" || entry.name == "eval_dataset") {
      const bool is_train = entry.name == "dataset";
      if (is_off(entry)) return true;
      add_named_datasets(entry, value_of("dataset_dir", "data"), is_train ? "datasets" : "test_datasets", options_,
                         file_);
      return true;
    }
    if (entry.name == "template") {
      if (!is_off(entry)) file_.notes.push_back(note_on_template(entry));
      return true;
    }
    if (entry.name == "max_samples") return add_where_on(entry, "max_samples", entry.value);
    if (entry.name == "val_size") {
      double size = 0.0;
      try {
        if (!is_off(entry)) config::read(entry.value, size);
      } catch (const std::invalid_argument&) {
        return refuse_unless(false, entry, "it is a share below 1, or a number of records", "correct it");
      }
      if (size > 0.0) add_as(entry, "eval_split", entry.value);
      return true;
    }
    if (entry.name == "packing" || entry.name == "neat_packing") {
      if (!is_off(entry)) add_as(entry, "packing", "true");
      if (!is_off(entry) && entry.name == "packing") {
        file_.notes.push_back(
            fmt::format("packing {}: rows are packed as TRL does it (bfd), and documents of a row never see each other",
                        entry.place));
      }
      return true;
    }
    if (entry.name == "mix_strategy" && entry.value == "concat") return true;
    if (entry.name == "tokenized_path") {
      std::error_code ignored;
      const bool holds_theirs =
          std::filesystem::exists(std::filesystem::path(entry.value) / "dataset_dict.json", ignored);
      if (!holds_theirs) return add_where_on(entry, "prepared_dir", entry.value);
      return refuse_unless(false, entry, "it holds tokens of llamafactory-cli, and sft-prepare makes its own",
                           "name another folder, or leave it out");
    }
    return entry.name == "dataset_dir" || entry.name == "train_on_prompt";
  }

  bool add_memory(const Entry& entry) {
    if (entry.name == "quantization_bit") {
      const std::string method = value_of("quantization_method", "bnb");
      if (entry.value == "4" && (method == "bnb" || method == "bitsandbytes")) add_as(entry, "load_in_4bit", "true");
      return refuse_unless(entry.value == "4" || is_off(entry), entry,
                           "frozen matrices are kept in 4 bits, or as they are", "write quantization_bit: 4");
    }
    if (entry.name == "quantization_method") {
      return refuse_unless(has_name("bnb bitsandbytes", entry.value) || is_off(entry), entry,
                           "matrices in 4 bits are those of bitsandbytes", "write quantization_method: bnb");
    }
    if (entry.name == "disable_gradient_checkpointing") {
      add_as(entry, "gradient_checkpointing", is_off(entry) ? "true" : "false");
      return true;
    }
    if (entry.name == "use_unsloth_gc") return add_where_on(entry, "activation_offloading", "true");
    if (entry.name == "recompute_granularity") {
      return add_where_on(entry, "train.activation_checkpointing", entry.value);
    }
    if (entry.name == "pure_bf16") return add_where_on(entry, "train.precision", "pure_bf16");
    if (entry.name == "fp8") return add_where_on(entry, "train.fp8", "tensorwise");
    if (entry.name == "use_distributed_optimizer") return add_where_on(entry, "parallel.zero_stage", "1");
    if (entry.name == "use_kt") {
      if (is_off(entry)) return true;
      add_as(entry, "offload_parameters", "host");
      file_.notes.push_back(fmt::format(
          "use_kt {}: weights lie in the memory of the host and come to the GPU a block at a time; experts are not "
          "computed on the CPU",
          entry.place));
      return true;
    }
    return false;
  }

  void add_defaults() {
    set_default("max_length", "2048");
    set_default("learning_rate", "5e-5");
    set_default("logging_steps", "500");
    if (config::truth_of(value_of("train_on_prompt", "false")) != true) set_default("assistant_only_loss", "true");
    if (!map_["recompute_granularity"]) set_default("gradient_checkpointing", "true");
    if (value_of("finetuning_type", "lora") != "lora") return;
    set_default("use_peft", "true");
    const std::string rank = value_of("lora_rank", "8");
    std::int64_t number = 0;
    try {
      config::read(rank, number);
    } catch (const std::invalid_argument&) {  // is refused under its own name
    }
    set_default("lora_r", rank);
    set_default("lora_alpha", fmt::format("{}", 2 * number));
    set_default("lora_dropout", "0");
    set_default("lora_target_modules", "all-linear");
    if (map_["quantization_bit"]) set_default("bnb_4bit_use_double_quant", "true");
  }

  SharedOptions options_;
};

}  // namespace

void add_llama_factory(const YAML::Node& map, const std::string& path, ForeignFile& file) {
  if (map["model"].IsDefined() && !map["model_name_or_path"].IsDefined()) return add_newer_engine(map, path, file);
  FactoryReader(map, path, file).read();
}

}  // namespace sft::launch
