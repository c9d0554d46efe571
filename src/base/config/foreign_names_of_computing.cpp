// SPDX-License-Identifier: Apache-2.0
#include "config/foreign_rows.hpp"

namespace sft::config {

namespace {

const char* const whole_evaluation = "evaluation is over all rows of data.eval_files, in the precision of training";
const char* const fp8_scales = "a scale is that of the numbers at hand: it has no margin and no history";

std::vector<ForeignRow> precision_rows() {
  return {
      {"bf16",
       {{"true", "train.precision=bf16"}, {"false", "train.precision=fp32"}, {"none", ""}},
       "it is true or false",
       "set train.precision to bf16 or fp32"},
      {"deepspeed_bf16_enabled", {{"false", "train.precision=fp32"}, {"none", ""}}, "it is false", leave_out},
      {"fp16", only_false, "there is no float16 training: bf16 has the range of float32 and needs no loss scaling",
       "set train.precision = bf16"},
      {"mixed_precision",
       {{"bf16", "train.precision=bf16"}, {"none", "train.precision=fp32"}},
       "computing is in bf16 or float32, products of linear layers with fp8 in 8-bit floats",
       "write bf16, fp8 or no"},
      {"mixed_precision_policy",
       {{"none", ""}, {"bf16", "train.precision=bf16"}},
       "computing is in bf16 or float32",
       "set train.precision to bf16 or fp32"},
      {"dtype torch_dtype",
       {{"none", ""},
        {"auto", ""},  // the reader of the model's folder knows
        {"float32", ""},
        {"fp32", ""},
        {"float", ""},
        {"bfloat16", "train.precision=pure_bf16"},
        {"bf16", "train.precision=pure_bf16"}},
       "weights are kept in float32, or in bf16 alone with train.precision = pure_bf16",
       "set train.precision to bf16, fp32 or pure_bf16"},
      {"tf32", either, "products of linear layers are in bf16, which TF32 does not touch", "write true or false"},
      {"downcast_bf16 enable_msamp", only_false, "computing is in bf16 or float32",
       "set train.precision to bf16 or fp32"},
      {"half_precision_backend fp16_backend",
       {{"auto", ""}, {"none", ""}},
       "computing is in bf16 or float32",
       "set train.precision to bf16 or fp32"},
      {"fp16_opt_level", only_none, "computing is in bf16 or float32", "set train.precision to bf16 or fp32"},
      {"fp8_backend",
       {{"none", ""}, {"auto", ""}, {"ao", ""}, {"torchao", ""}, {"te", ""}},
       "products in 8-bit floats are sft's own: scales are those of the numbers at hand, without a history",
       "set train.fp8 to tensorwise or blockwise"},
      {"fp8_format",
       {{"none", ""}, {"HYBRID", ""}},
       "activations and weights are E4M3, gradients E5M2, which is HYBRID",
       "leave it out"},
      {"fp8_margin", {{"none", ""}, {"0", ""}}, fp8_scales, leave_out},
      {"fp8_interval", {{"none", ""}, {"1", ""}}, fp8_scales, leave_out},
      {"fp8_amax_history_len", {{"none", ""}, {"1", ""}, {"1024", ""}}, fp8_scales, leave_out},
      {"fp8_amax_compute_algo", {{"none", ""}, {"most_recent", ""}}, fp8_scales, leave_out},
      {"fp8_use_autocast_during_eval fp8_pad_inner_dim fp8_enable_fsdp_float8_all_gather", either,
       "products in 8-bit floats are sft's own, the same in training and evaluation", "write true or false"},
      {"fp8_opt_level", {{"none", ""}, {"O1", ""}, {"O2", ""}}, "it is of MS-AMP, which is not used", leave_out},
      {"fp8_*", only_none, "one key says all of fp8: what of an operand shares a scale",
       "set train.fp8 to tensorwise or blockwise"},
      {"bf16_full_eval", either, "evaluation is in the precision of training", "write true or false"},
      {"fp16_full_eval", only_false, whole_evaluation, "set train.precision = bf16"},
      {"msamp_opt_level", anything, no_effect, leave_out},
      {"use_legacy_prediction_loop", either, no_effect, leave_out},
      {"past_index", anything, no_effect, leave_out},
  };
}

std::vector<ForeignRow> memory_rows() {
  return {
      {"gradient_checkpointing",
       {{"true", "train.activation_checkpointing=full"},
        {"false", "train.activation_checkpointing=none"},
        {"none", ""}},
       "it is true or false",
       "set train.activation_checkpointing to none, selective or full"},
      {"gradient_checkpointing_kwargs activation_checkpointing_kwargs",
       {{"none", ""}, {"{}", ""}},
       "it is a JSON object",
       R"(write {"use_reentrant": false}, or leave it out)"},
      {"gradient_checkpointing_kwargs.use_reentrant activation_checkpointing_kwargs.use_reentrant "
       "gradient_checkpointing_kwargs.preserve_rng_state activation_checkpointing_kwargs.preserve_rng_state "
       "gradient_checkpointing_kwargs.early_stop activation_checkpointing_kwargs.early_stop",
       either, "blocks are recomputed in one way, to the same bits", "write true or false"},
      {"gradient_checkpointing_kwargs.determinism_check activation_checkpointing_kwargs.determinism_check",
       {{"default", ""}, {"none", ""}},
       "blocks are recomputed in one way, to the same bits",
       leave_out},
      {"gradient_checkpointing_kwargs.selective activation_checkpointing_kwargs.selective", only_false,
       "it would keep the outputs of attention and recompute the rest, and there is no such mode",
       "set train.activation_checkpointing to full, or to selective, which recomputes what is cheap"},
      {"gradient_checkpointing_kwargs.every_n_layers activation_checkpointing_kwargs.every_n_layers",
       {{"1", ""}, {"none", ""}},
       "all blocks are recomputed alike",
       "leave it out, or set train.activation_checkpointing = selective, which keeps more and recomputes less"},
      {"gradient_checkpointing_kwargs.offload activation_checkpointing_kwargs.offload",
       {{"true", "train.activation_offload=true"}, {"false", ""}, {"none", ""}},
       "it is true or false",
       "set train.activation_offload to true or false"},
      {"gradient_checkpointing_kwargs.* activation_checkpointing_kwargs.*", only_none,
       "it belongs to torch.utils.checkpoint, which is not used", leave_out},
      {"activation_offloading activation_checkpointing_offload",
       {{"true", "train.activation_offload=true"}, {"false", "train.activation_offload=false"}, {"none", ""}},
       "it is true or false",
       "set train.activation_offload to true or false"},
      {"cpu_offload offload_params",
       {{"true", "train.offload_parameters=host"}, {"false", ""}, {"none", ""}},
       "it is true or false",
       "set train.offload_parameters and train.offload_optimizer to none, host or nvme"},
      {"offload_optimizer_device", {{"*", "train.offload_optimizer=*"}}, "", ""},
      {"offload_param_device", {{"*", "train.offload_parameters=*"}}, "", ""},
      {"offload_optimizer_nvme_path offload_param_nvme_path nvme_path",
       {{"none", ""}, {"*", "train.offload_folder=*"}},
       "",
       ""},
      {"auto_find_batch_size", only_false, "memory is planned before the first step",
       "set train.per_device_train_batch_size, or give it as auto to sft-launch, which plans it; `sft INPUT.ini "
       "--dry-run` shows the memory it needs"},
      {"torch_empty_cache_steps", anything, "memory is planned, and taken once before the first step", leave_out},
      {"skip_memory_metrics", either, "lines of metrics.jsonl always have the memory of the fullest rank", leave_out},
  };
}

std::vector<ForeignRow> optimizer_rows() {
  return {
      {"optim_args", only_none, "each option of an optimizer is a key",
       "set adam_beta1, adam_beta2, adam_epsilon, weight_decay and others under [optimizer]"},
      {"optim_target_modules", only_none,
       "no optimizer here projects gradients of some layers, as GaLore and APOLLO do",
       "leave it out; LoRA (lora.use_peft) and optimizer.optim = adamw_8bit or adafactor save memory"},
      {"lr", nothing, "its name is learning_rate", "write optimizer.learning_rate"},
      {"average_tokens_across_devices",
       {{"true", ""}},
       "the loss is the mean over the targets of the whole batch, on all ranks",
       leave_out},
      {"output_router_logits", either, "the auxiliary loss of experts follows from router_aux_loss_coef", leave_out},
      {"adafactor",
       {{"true", "optimizer.optim=adafactor"}, {"false", ""}, {"none", ""}},
       "it is true or false",
       "set optimizer.optim = adafactor"},
      {"batch_size train_batch_size micro_batch_size per_gpu_train_batch_size", nothing,
       "its name is per_device_train_batch_size",
       "write train.per_device_train_batch_size, the rows of a micro-batch on each data-parallel rank"},
      {"epochs num_epochs", nothing, "its name is num_train_epochs", "write train.num_train_epochs"},
  };
}

std::vector<ForeignRow> kernel_rows() {
  return {
      {"attn_implementation liger_kernel_config torch_compile_backend torch_compile_mode dynamo_backend dynamo_mode "
       "dynamo_config torchdynamo",
       anything, "sft has kernels of its own; these choices change rounding at most", leave_out},
      {"use_liger_kernel use_liger torch_compile use_cache use_flash_attention_2 dynamo_* jit_mode_eval use_ipex",
       either, "sft has kernels of its own; these choices change rounding at most", leave_out},
      {"full_determinism", either, "runs always repeat to the bit", leave_out},
  };
}

}  // namespace

std::vector<ForeignRow> foreign_rows_of_computing() {
  std::vector<ForeignRow> all;
  for (const auto& rows : {precision_rows(), memory_rows(), optimizer_rows(), kernel_rows()}) {
    all.insert(all.end(), rows.begin(), rows.end());
  }
  return all;
}

}  // namespace sft::config
