// SPDX-License-Identifier: Apache-2.0
// Names of Axolotl that need no more than another name here, or none.

#include "launch/axolotl.hpp"

namespace sft::launch {

namespace {

constexpr Meaning axolotl_renamed[] = {
    {"base_model", "model_name_or_path"},
    {"revision_of_model", "model_revision"},
    {"sequence_len", "max_length"},
    {"micro_batch_size", "per_device_train_batch_size"},
    {"num_epochs", "num_train_epochs"},
    {"dataset_prepared_path", "prepared_dir"},
    {"context_parallel_size sequence_parallel_degree", "sp_size"},
    {"tensor_parallel_size", "tp_size"},
    {"expert_parallel_size", "ep_size"},
    {"peft_use_rslora", "use_rslora"},
    {"peft_use_dora", "use_dora"},
    {"peft_layers_to_transform lora_layers_to_transform layers_to_transform", "layers_to_transform"},
    {"peft_init_lora_weights", "init_lora_weights"},
    {"noisy_embedding_alpha", "neftune_noise_alpha"},
    {"ray_num_workers", "num_processes"},
};

/// Names that mean the same to TRL, transformers or sft.
constexpr const char* axolotl_same =
    "gradient_accumulation_steps learning_rate weight_decay max_grad_norm max_steps "
    "adam_beta1 "
    "adam_beta2 adam_epsilon lora_r lora_alpha lora_dropout loraplus_lr_ratio output_dir logging_steps save_steps "
    "save_total_limit save_only_model eval_steps save_strategy eval_strategy evaluation_strategy seed fp16 "
    "load_in_8bit "
    "load_in_4bit quantize_moe_experts gradient_checkpointing_kwargs dp_shard_size dp_replicate_size "
    "neftune_noise_alpha "
    "resume_from_checkpoint group_by_length lr_scheduler_kwargs torch_compile trust_remote_code fsdp_version "
    "label_smoothing_factor lora_modules_to_save save_safetensors include_tokens_per_second attn_implementation "
    "hub_strategy hub_revision loss_watchdog_threshold loss_watchdog_patience early_stopping_patience "
    "load_best_model_at_end metric_for_best_model greater_is_better torch_dtype dataloader_drop_last";

constexpr const char* axolotl_harmless =
    "model_type cls_model_config tokenizer_type processor_type is_llama_derived_model is_mistral_derived_model "
    "is_falcon_derived_model is_qwen_derived_model flash_attention xformers_attention sdp_attention eager_attention "
    "flex_attention flash_optimum flex_attn_compile_kwargs torch_compile_* sample_packing_* total_num_tokens "
    "pad_to_sequence_len eval_batch_size eval_sample_packing eval_table_size eval_max_new_tokens "
    "eval_causal_lm_metrics "
    "wandb_* use_wandb mlflow_* use_mlflow trackio_* use_trackio swanlab_* use_swanlab use_tensorboard "
    "push_dataset_to_hub hf_use_auth_token local_rank debug strict ddp ddp_timeout ddp_find_unused_parameters "
    "ddp_bucket_cap_mb ddp_broadcast_buffers device_map max_memory dataset_processes dataset_num_proc dataloader_* "
    "low_cpu_mem_usage flash_attn_cross_entropy flash_attn_rms_norm flash_attn_fuse_mlp flash_attn_fuse_qkv liger_* "
    "cut_cross_entropy lora_mlp_kernel lora_qkv_kernel lora_o_kernel lora_embedding_kernel lora_fan_in_fan_out "
    "lora_on_cpu heads_k_stride ring_attn_func tf32 save_first_step shuffle_merged_datasets "
    "shuffle_before_merging_datasets remove_unused_columns tokenizer_use_fast tokenizer_legacy use_kernels "
    "use_scattermoe use_sonicmoe experts_implementation fused_attn_kernel use_dsv4_kernels use_glm_dsa_kernels "
    "gemma4_hybrid_attn_impl ple_cpu_offload llama4_linearized_experts experimental_skip_move_to_device "
    "torchdistx_path "
    "expert_parallel_* dsv4_fp4_grouped_mode base_model_ignore_patterns use_ray accelerator_config "
    "fp8_enable_fsdp_float8_all_gather test_value gptq_groupsize gptq_model_v1 skip_memory_metrics "
    "x-* gc_steps unsloth_* pretrain_multipack_attn logging_first_step eta_min";

constexpr Impossible axolotl_impossible[] = {
    {"rl rl_beta reward_model process_reward_model num_labels trl vllm ebft diffusion dpo_* kto_* orpo_* simpo_* "
     "center_rewards_coefficient",
     only_next_token, "take Axolotl for preferences and rewards, and sft for supervised fine-tuning"},
    {"pretraining_dataset streaming streaming_multipack_buffer_size", "data are files that sft-prepare packs",
     "name files under datasets, with type: completion for plain text"},
    {"skip_prepare_dataset image_* freeze_mm_modules", "pictures cannot be trained on",
     "leave it out, with records of text alone"},
    {"qat quantization nvfp4_merge_aware use_onebitllms llmcompressor",
     "frozen matrices are quantized (nf4), and nothing else is in training", "leave it out"},
    {"gptq gptq_* peft loftq", no_other_adapters, "write adapter: qlora with load_in_4bit: true, or adapter: lora"},
    {"lisa_* relora relora_* jagged_* spectrum_*", all_or_adapters,
     "leave it out, or write adapter: lora with lora_modules_to_save"},
    {"lora_model_dir peft_layer_replication lora_exclude_modules loraplus_lr_embedding embedding_lr embedding_lr_scale "
     "lr_groups",
     "there is one rate for adapters, and one for their B matrices", "leave it out"},
    {"use_eaft eaft_*", "the loss of a token is nll, or dft", "leave it out, or write use_dft: true"},
    {"float16", "there is no float16 training: bf16 has the range of float32", "write bf16: true"},
    {"min_sample_len dataset_exact_deduplication drop_system_message", "records are taken as they are",
     "leave out such records before"},
    {"chat_template_kwargs", "variables of a template are those of each record",
     "write chat_template_kwargs into the records"},
    {"tokenizer_config", "the tokenizer is that of base_model", "give sft-prepare --tokenizer FOLDER"},
    {"use_otel_metrics use_comet", "metrics go to TensorBoard, Prometheus and the services of report_to",
     "leave it out, or write use_tensorboard: true"},
    {"do_bench_eval", "evaluation is the loss on held-back rows", "leave it out"},
    {"reinit_weights s2_attention", "nothing here does what Axolotl does with it", "leave it out"},
};

constexpr KeyTable table_of_axolotl{"Axolotl", axolotl_renamed, axolotl_same, axolotl_harmless, axolotl_impossible};

}  // namespace

const KeyTable& axolotl_table() { return table_of_axolotl; }

}  // namespace sft::launch
