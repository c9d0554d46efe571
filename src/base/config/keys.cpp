// SPDX-License-Identifier: Apache-2.0
#include "config/keys.hpp"

#include <fmt/core.h>

#include "config/make_key.hpp"

namespace sft::config {

namespace {

std::vector<Key> make_keys() {
  using C = Config;
  return {
      path_key("model", &C::model, "model_name_or_path", &Model::model_name_or_path,
               "model to start from: a folder in hub format, the name of one in the hub cache (org/name), or a "
               "checkpoint of sft (its weights alone); empty: random weights"),
      key("model", &C::model, "model_revision", &Model::model_revision, "branch, tag or commit of a name in the cache"),
      key("model", &C::model, "hidden_size", &Model::hidden_size,
          "width of the residual stream; required, as are the sizes below, unless they come with a model"),
      key("model", &C::model, "num_hidden_layers", &Model::num_hidden_layers, "decoder blocks"),
      key("model", &C::model, "num_attention_heads", &Model::num_attention_heads, "query heads"),
      key("model", &C::model, "num_key_value_heads", &Model::num_key_value_heads,
          "key/value heads; 0: num_attention_heads"),
      key("model", &C::model, "head_dim", &Model::head_dim,
          "width of a head, even; 0: hidden_size / num_attention_heads"),
      key("model", &C::model, "intermediate_size", &Model::intermediate_size, "width of the MLP"),
      key("model", &C::model, "vocab_size", &Model::vocab_size,
          "rows of the embedding, at least the data's vocabulary"),
      key("model", &C::model, "pad_token_id", &Model::pad_token_id,
          "token whose embedding gets no gradient as an input, as in transformers; -1: none"),
      key("model", &C::model, "rope_theta", &Model::rope_theta, "base of the rotary embedding's frequencies"),
      key("model", &C::model, "rope_scaling", &Model::rope_scaling,
          "JSON object of config.json: rope_type linear, dynamic, yarn, llama3 or longrope and its fields; empty: "
          "none"),
      key("model", &C::model, "rms_norm_eps", &Model::rms_norm_eps, "added to the mean square in every RMSNorm"),
      key("model", &C::model, "tie_word_embeddings", &Model::tie_word_embeddings, "the head is the embedding table"),
      key("model", &C::model, "attention_bias", &Model::attention_bias, "biases on q, k and v (Qwen2)"),
      key("model", &C::model, "attention_output_bias", &Model::attention_output_bias,
          "a bias on o (attention_bias of a Llama sets both)"),
      key("model", &C::model, "mlp_bias", &Model::mlp_bias, "biases on gate, up and down"),
      key("model", &C::model, "qk_norm", &Model::qk_norm, "RMSNorm on every head of q and k (Qwen3)"),
      key("model", &C::model, "qk_norm_all_heads", &Model::qk_norm_all_heads,
          "with qk_norm: one RMSNorm over all heads of q, and one of k (OLMo 2)"),
      key("model", &C::model, "qk_norm_after_rope", &Model::qk_norm_after_rope,
          "with qk_norm: queries and keys are rotated first, then normed (Hunyuan)"),
      key("model", &C::model, "block_norms", &Model::block_norms,
          "norms of a block: pre, before attention and MLP; glm4 and gemma2 (other names): also of what each of the "
          "two adds; olmo2: of that alone"),
      key("model", &C::model, "zero_centered_norms", &Model::zero_centered_norms,
          "norms multiply by 1 + their weight (Gemma)"),
      key("model", &C::model, "hidden_act", &Model::hidden_act,
          "what the MLP's gate goes through: silu, gelu_pytorch_tanh (Gemma) or relu2, a squared ReLU (Arcee)"),
      key("model", &C::model, "gated_mlp", &Model::gated_mlp,
          "the MLP multiplies up by its gate; false: up goes through hidden_act itself (Arcee)"),
      key("model", &C::model, "partial_rotary_factor", &Model::partial_rotary_factor,
          "share of the dims of a head that are rotated, the first ones (Phi-4-mini, GLM-4)"),
      key("model", &C::model, "llama_4_scaling_beta", &Model::llama_4_scaling_beta,
          "queries grow by 1 + this ln(1 + floor(position / original_max_position_embeddings)) (Ministral 3)"),
      key("model", &C::model, "no_rope_layers", &Model::no_rope_layers,
          "for each layer 1, or 0 where queries and keys are not rotated (SmolLM3); empty: all are"),
      key("model", &C::model, "rope_local_base_freq", &Model::rope_local_base_freq,
          "rope_theta of sliding layers, whose positions are not scaled (Gemma 3, OLMo 3); 0: that of all layers"),
      key("model", &C::model, "embedding_multiplier", &Model::embedding_multiplier,
          "what the embedding is multiplied with (Granite)"),
      key("model", &C::model, "rounds_embedding_multiplier", &Model::rounds_embedding_multiplier,
          "that number is rounded to the dtype of computing (Gemma)"),
      key("model", &C::model, "attention_multiplier", &Model::attention_multiplier,
          "what attention's scores are multiplied with; 0: 1 / sqrt(head_dim)"),
      key("model", &C::model, "attn_logit_softcapping", &Model::attn_logit_softcapping,
          "c: attention's scores are c tanh(score / c) (Gemma 2); 0: as they are"),
      key("model", &C::model, "attention_sinks", &Model::attention_sinks,
          "every head has a learned score beside those of the keys, of no value (gpt-oss)"),
      key("model", &C::model, "residual_multiplier", &Model::residual_multiplier,
          "what attention and MLP add is multiplied with"),
      key("model", &C::model, "logits_scaling", &Model::logits_scaling, "what logits are divided by"),
      key("model", &C::model, "final_logit_softcapping", &Model::final_logit_softcapping,
          "logits are capped to c tanh(logit / c) with this c (Gemma 2); 0: they are not"),
      key("model", &C::model, "max_position_embeddings", &Model::max_position_embeddings,
          "the longest document that the model is made for, for config.json of what is saved; 0: not known"),
      key("model", &C::model, "sliding_window", &Model::sliding_window,
          "tokens that a token of a sliding layer sees, itself included; 0: all of its document"),
      key("model", &C::model, "layer_types", &Model::layer_types,
          "for each layer full_attention or sliding_attention; empty: with a sliding_window all slide"),
      key("model", &C::model, "num_experts", &Model::num_experts, "experts of a layer, in place of its MLP; 0: none", 0,
          "0 (none) or more"),
      key("model", &C::model, "num_experts_per_tok", &Model::num_experts_per_tok,
          "experts that each token goes through"),
      key("model", &C::model, "moe_intermediate_size", &Model::moe_intermediate_size, "width of an expert"),
      key("model", &C::model, "expert_form", &Model::expert_form,
          "swiglu: experts of gate, up and down; gpt_oss: with biases and a gate that is cut off"),
      key("model", &C::model, "swiglu_alpha", &Model::swiglu_alpha, "how steep the gate of gpt-oss's experts is"),
      key("model", &C::model, "swiglu_limit", &Model::swiglu_limit, "where gates and ups of gpt-oss's experts end"),
      key("model", &C::model, "norm_topk_prob", &Model::norm_topk_prob,
          "divide a token's weights of its experts by their sum"),
      key("model", &C::model, "mlp_only_layers", &Model::mlp_only_layers,
          "numbers of the layers, from 0, that have an MLP and no experts"),
      key("model", &C::model, "router_aux_loss_coef", &Model::router_aux_loss_coef,
          "of the auxiliary loss that balances experts; may differ from that of the model that is given", 0.0,
          "0 (none) or more"),
      key("model", &C::model, "scoring_func", &Model::scoring_func,
          "what routers choose and weigh experts by: softmax over all, or sigmoid of each (GLM-4.5), to which a "
          "correction of each expert is added for the choice, and which is not trained"),
      key("model", &C::model, "n_group", &Model::n_group, "with sigmoid: groups of neighbouring experts", 1,
          "1 or more"),
      key("model", &C::model, "topk_group", &Model::topk_group, "groups that a token's experts may be of", 1,
          "1 or more"),
      key("model", &C::model, "routed_scaling_factor", &Model::routed_scaling_factor,
          "what a token's weights of its experts are multiplied with"),
      key("model", &C::model, "n_shared_experts", &Model::n_shared_experts,
          "experts that all tokens go through beside their own, as one MLP of their width together; 0: none", 0,
          "0 (none) or more"),
      key("model", &C::model, "init_seed", &Model::init_seed, "seed of the random weights"),
      key("model", &C::model, "initializer_range", &Model::initializer_range, "standard deviation of random weights"),

      key("lora", &C::lora, "use_peft", &Lora::use_peft, "train low-rank adapters (LoRA) and freeze all other weights"),
      key("lora", &C::lora, "lora_r", &Lora::lora_r, "rank of the adapters"),
      key("lora", &C::lora, "lora_alpha", &Lora::lora_alpha, "adapters are scaled by lora_alpha / lora_r"),
      key("lora", &C::lora, "lora_dropout", &Lora::lora_dropout, "share of an adapter's inputs that is dropped"),
      key("lora", &C::lora, "lora_target_modules", &Lora::lora_target_modules,
          "all-linear, or some of q_proj k_proj v_proj o_proj gate_proj up_proj down_proj"),
      key("lora", &C::lora, "lora_target_parameters", &Lora::lora_target_parameters,
          "weights of experts that get adapters too, one for each expert: mlp.experts.gate_up_proj, "
          "mlp.experts.down_proj, or longer ends of their paths; none: experts rest"),
      key("lora", &C::lora, "use_rslora", &Lora::use_rslora, "scale by lora_alpha / sqrt(lora_r) instead"),
      key("lora", &C::lora, "use_dora", &Lora::use_dora,
          "train the norms of the rows of adapted weights too (DoRA): they have no weight decay"),
      key("lora", &C::lora, "rank_pattern", &Lora::rank_pattern,
          "JSON object of ranks in place of lora_r, by regular expressions of the end of a layer's path, such as "
          "{\"q_proj\": 8, \"layers.0.mlp.down_proj\": 4}; the first that matches counts; empty: none"),
      key("lora", &C::lora, "alpha_pattern", &Lora::alpha_pattern, "the same in place of lora_alpha"),
      key("lora", &C::lora, "layers_to_transform", &Lora::layers_to_transform,
          "numbers of the blocks that get adapters, from 0; empty: all"),
      key("lora", &C::lora, "layers_pattern", &Lora::layers_pattern,
          "beside layers_to_transform: what holds the blocks, which is layers"),
      key("lora", &C::lora, "init_lora_weights", &Lora::init_lora_weights,
          "what adapters begin with: true (A random, B zero), false (both random), gaussian (A normal with deviation "
          "1 / lora_r, B zero), or a part of the weights: pissa (largest singular values), pissa_niter_N (the same, "
          "sought in N iterations: faster) or olora (QR)"),
      key("lora", &C::lora, "modules_to_save", &Lora::modules_to_save,
          "modules that are trained whole beside the adapters, by the ends of their names: some of embed_tokens "
          "lm_head norm input_layernorm post_attention_layernorm q_norm k_norm; norm means all that end so"),
      key("lora", &C::lora, "loraplus_lr_ratio", &Lora::loraplus_lr_ratio,
          "learning rate of B, and of vectors, by that of A (LoRA+); 1: the same"),
      key("lora", &C::lora, "load_in_4bit", &Lora::load_in_4bit,
          "keep the frozen matrices of blocks' linear layers in 4 bits (QLoRA), as bitsandbytes makes them; products "
          "are "
          "computed as train.precision says"),
      key("lora", &C::lora, "bnb_4bit_quant_type", &Lora::bnb_4bit_quant_type, "their code"),
      key("lora", &C::lora, "use_bnb_nested_quant", &Lora::use_bnb_nested_quant,
          "keep their scales in 8 bits (double quantization)"),
      key("lora", &C::lora, "quantize_moe_experts", &Lora::quantize_moe_experts,
          "beside load_in_4bit: keep the matrices of experts in 4 bits, too, where the model has some"),
      key("lora", &C::lora, "llm_int8_skip_modules", &Lora::llm_int8_skip_modules,
          "modules whose matrices load_in_4bit leaves as they are, by beginnings or ends of their paths, such as "
          "model.layers.0.mlp or o_proj; of a model that is in 4 bits those that it holds as numbers"),

      path_key("data", &C::data, "train_files", &Data::train_files,
               "packed shards from sft-prepare, paths and globs, separated by spaces or commas; required"),
      eval_files_key("packed shards to evaluate on, as train_files; none: no evaluation"),
      key("data", &C::data, "shuffle", &Data::shuffle, "a new order of rows every epoch; false: file order"),
      key("data", &C::data, "row_order", &Data::row_order,
          "trl: the rows of SFTTrainer's steps, in the order of torch's RandomSampler; the last step of an epoch has "
          "those that are left. endless: whole batches throughout, shuffled by a rule of our own. auto: trl with "
          "shuffle "
          "and up to 2^24 rows, else endless; a resumed run keeps its order"),
      key("data", &C::data, "seed", &Data::seed,
          "seed of the order of rows; the data_seed of TRL, or its seed where it has none"),

      ranks_key("dp_replicate_size", &Parallel::dp_replicate_size, "copies of the model (DP)"),
      ranks_or_auto_key("dp_shard_size", &Parallel::dp_shard_size,
                        "ranks that share one copy's parameters (FSDP); auto: what the other axes leave"),
      ranks_key("ep_size", &Parallel::ep_size,
                "ranks that share the experts of each layer, and read different rows (EP)"),
      ranks_key("sp_size", &Parallel::sp_size, "ranks that share each row's sequence (SP)"),
      ranks_key("tp_size", &Parallel::tp_size, "ranks that share heads, MLP and vocabulary (TP)"),
      key("parallel", &C::parallel, "zero_stage", &Parallel::zero_stage,
          "what dp_shard x ep x sp shards: 0 nothing, 1 optimizer state, 2 and gradients, 3 and parameters"),
      reshard_key(
          "with zero_stage = 3: free gathered parameters after the forward pass and gather them again in the backward "
          "pass; false: keep them; N: neighbours of N ranks keep them together, and gather among themselves"),
      fsdp_units_key(
          "parameters that are gathered together: block, N (so many blocks) or parts (attention and MLP of a block)"),
      key("parallel", &C::parallel, "sp_method", &Parallel::sp_method,
          "how SP ranks reach each other's k/v: they go round a ring, all_gather them, exchange heads (ulysses), or "
          "exchange heads between neighbours with a ring across (hybrid); auto: what sends least of what fits the "
          "memory"),
      ranks_or_auto_key(
          "ulysses_size", &Parallel::ulysses_size,
          "with sp_method = hybrid: neighbouring SP ranks that exchange heads; auto: as many as the heads, "
          "a node and its memory allow"),
      truth_or_auto_key("parallel", &C::parallel, "tp_sequence_parallel", &Parallel::tp_sequence_parallel,
                        "cut tokens over TP between its products: what norms and residual additions keep is divided by "
                        "tp_size; auto: with TP"),
      key("parallel", &C::parallel, "reduce_dtype", &Parallel::reduce_dtype,
          "how gradients travel when they are summed over FSDP ranks and replicas: float32, or bf16, which is half the "
          "bytes and rounds them"),
      key("parallel", &C::parallel, "tp_reduce", &Parallel::tp_reduce,
          "the same for the sums behind the products of TP"),

      key("train", &C::train, "per_device_train_batch_size", &Train::per_device_train_batch_size,
          "rows of one micro-batch on each data-parallel rank"),
      key("train", &C::train, "gradient_accumulation_steps", &Train::gradient_accumulation_steps,
          "micro-batches of one optimizer step"),
      key("train", &C::train, "max_steps", &Train::max_steps,
          "optimizer steps; -1: num_train_epochs decides; 0: write checkpoint-000000 and end"),
      key("train", &C::train, "num_train_epochs", &Train::num_train_epochs, "passes over the data if max_steps is -1"),
      key("train", &C::train, "loss_type", &Train::loss_type,
          "loss of a token: nll, or dft (Dynamic Fine-Tuning: nll times the probability of the target)"),
      number_or_none_key("train", &C::train, "label_smoothing_factor", &Train::label_smoothing_factor,
                         "share of the loss that is the mean of -log(p) over the whole vocabulary; 0: none"),
      number_or_none_key("train", &C::train, "neftune_noise_alpha", &Train::neftune_noise_alpha,
                         "noise on embeddings in training (NEFTune), even within this / sqrt(tokens of the row x "
                         "hidden_size); 0: none"),
      key("train", &C::train, "precision", &Train::precision,
          "fp32; bf16: compute and gather in bf16, master weights and reductions in float32; or pure_bf16: weights "
          "in bf16 alone, updated with stochastic rounding"),
      key("train", &C::train, "fp8", &Train::fp8,
          "products of linear layers of blocks in 8-bit floats, with a scale for each operand (tensorwise) or for 128 "
          "neighbours and blocks of weights (blockwise); none: as precision says. Faster on GPUs from compute "
          "capability "
          "8.9 on, blockwise on 9.0; slower on CPUs, where it shows what becomes of a run"),
      key("train", &C::train, "offload_optimizer", &Train::offload_optimizer,
          "where the moments lie between steps: none (on the device), host (the node's memory, the same on a CPU) or "
          "nvme "
          "(files of offload_folder)"),
      key("train", &C::train, "offload_parameters", &Train::offload_parameters,
          "the same for the float32 master weights of precision bf16; host, on GPUs and with zero_stage 3, for all "
          "parameters, which then come to the GPU a unit at a time"),
      checkpointing_key(
          "activations that are computed again in the backward pass rather than kept: none, selective (what is cheap) "
          "or full (all but the input of each block; also written true, or given without a value)"),
      key("train", &C::train, "activation_offload", &Train::activation_offload,
          "move kept activations out until the backward pass: to host memory from a GPU, to files in offload_folder "
          "from a CPU"),
      key("train", &C::train, "activation_offload_to", &Train::activation_offload_to,
          "where they go: auto, or nvme: to files in offload_folder from GPUs too, by way of host memory for two "
          "blocks"),
      path_key(
          "train", &C::train, "offload_folder", &Train::offload_folder,
          "folder on a fast disk of each node, for what is offloaded to files: without names, gone when the run ends"),
      number_or_auto_key(
          "train", &C::train, "mlp_tile_tokens", &Train::mlp_tile_tokens,
          "tokens that an MLP works on at a time, for long rows; 0: all; auto: all, or 8192 where the run "
          "fits in memory only so",
          0, "auto, 0 (all tokens at a time) or more"),
      number_or_auto_key(
          "train", &C::train, "attention_head_groups", &Train::attention_head_groups,
          "groups of key/value heads, each with its query heads, that attention works on one after the other, for long "
          "rows; 1: all heads at once; auto: all, or each alone where the run fits in memory only so",
          1, "auto, 1 (all heads at once) or more"),
      key("train", &C::train, "seed", &Train::seed,
          "seed of what is random beyond weights and the order of rows: the dropout of adapters, noise on embeddings"),
      path_key("train", &C::train, "output_dir", &Train::output_dir,
               "folder for metrics, checkpoints and resolved.ini"),
      key("train", &C::train, "logging_steps", &Train::logging_steps, "steps between two lines of metrics.jsonl", 1,
          "1 or more"),
      key("train", &C::train, "logging_first_step", &Train::logging_first_step,
          "a line of metrics.jsonl for the first step of the run, too"),
      key("train", &C::train, "report_to", &Train::report_to,
          "where metrics go beside metrics.jsonl: tensorboard and prometheus write files in output_dir; for wandb, "
          "mlflow, "
          "trackio and swanlab the run says which command sends them; all: everywhere; none: nowhere"),
      key("train", &C::train, "eval_strategy", &Train::eval_strategy,
          "when to evaluate on eval_files: steps (every eval_steps), epoch (at the end of each), both also at the end "
          "of the run, or no"),
      eval_steps_key("steps between two evaluations on eval_files, beside the one at the end; none: logging_steps; "
                     "0: only at the end"),
      key("train", &C::train, "eval_on_start", &Train::eval_on_start, "evaluate before the first step too"),
      key("train", &C::train, "eval_delay", &Train::eval_delay,
          "steps, or with eval_strategy = epoch epochs, before which no evaluation comes by eval_strategy", 0.0,
          "0 or more"),
      key("train", &C::train, "load_best_model_at_end", &Train::load_best_model_at_end,
          "a finished run leaves the model or adapters of its best checkpoint, not of its last step"),
      optional_key("metric_for_best_model", &Train::metric_for_best_model, &is_none,
                   "what an evaluation is judged by: loss, mean_token_accuracy or entropy, also with eval_ in front; "
                   "none: loss, where a key needs one"),
      optional_key("greater_is_better", &Train::greater_is_better, &is_no_truth,
                   "whether more of that metric is better; none: true unless its name ends with loss"),
      number_or_none_key("train", &C::train, "early_stopping_patience", &Train::early_stopping_patience,
                         "end the run after so many evaluations in a row that are not better than the best before "
                         "them; 0: never"),
      key("train", &C::train, "early_stopping_threshold", &Train::early_stopping_threshold,
          "how much better an evaluation must be to count for that"),
      key("train", &C::train, "nan_policy", &Train::nan_policy,
          "what a step does whose loss or gradient norm is NaN or Inf: stop ends the run, with skip the step is left "
          "out"),
      key("train", &C::train, "nan_skip_limit", &Train::nan_skip_limit,
          "with nan_policy = skip: so many steps left out in a row end the run"),
      number_or_none_key("train", &C::train, "loss_watchdog_threshold", &Train::loss_watchdog_threshold,
                         "end the run when the loss of loss_watchdog_patience steps in a row is above this; 0: never"),
      key("train", &C::train, "loss_watchdog_patience", &Train::loss_watchdog_patience, "see loss_watchdog_threshold"),
      key("train", &C::train, "profile_steps", &Train::profile_steps,
          "steps, counted from 1, whose timeline goes to output_dir/trace.json and to NVIDIA's profilers: 3, or 3-5; "
          "none: no step"),

      key("optimizer", &C::optimizer, "optim", &Optimizer::optim, optimizers_text()),
      key("optimizer", &C::optimizer, "learning_rate", &Optimizer::learning_rate, "peak rate"),
      key("optimizer", &C::optimizer, "lr_scheduler_type", &Optimizer::lr_scheduler_type,
          "the schedule: linear, cosine (both to 0 at the last step), constant (without warm-up), "
          "constant_with_warmup, or another one of transformers; docs/configuration.md has a table"),
      key("optimizer", &C::optimizer, "lr_scheduler_kwargs", &Optimizer::lr_scheduler_kwargs,
          "JSON object of what the schedule lets you choose, such as {\"num_cycles\": 2}; empty: its defaults"),
      key("optimizer", &C::optimizer, "warmup_steps", &Optimizer::warmup_steps,
          "steps of warm-up from 0; below 1: their share of all steps, rounded up"),
      number_or_none_key("optimizer", &C::optimizer, "warmup_ratio", &Optimizer::warmup_ratio,
                         "share of all steps that are warm-up, rounded up, in place of warmup_steps"),
      key("optimizer", &C::optimizer, "weight_decay", &Optimizer::weight_decay,
          "decay of matrices and sinks, decoupled but for sgd; norms and biases have none"),
      key("optimizer", &C::optimizer, "adam_beta1", &Optimizer::adam_beta1,
          "decay of the first moment; with lion of its mix with the gradient"),
      key("optimizer", &C::optimizer, "adam_beta2", &Optimizer::adam_beta2,
          "decay of the second moment; with lion of its one moment"),
      key("optimizer", &C::optimizer, "adam_epsilon", &Optimizer::adam_epsilon, "added to the denominator"),
      key("optimizer", &C::optimizer, "muon_momentum", &Optimizer::muon_momentum,
          "of muon: decay of the mean of a matrix's gradients"),
      key("optimizer", &C::optimizer, "nesterov", &Optimizer::nesterov,
          "of muon: step along that mean mixed with the gradient, not along the mean alone"),
      key("optimizer", &C::optimizer, "adjust_lr_fn", &Optimizer::adjust_lr_fn,
          "how muon's rate follows from the shape of a matrix: match_rms_adamw (steps as large as AdamW's: one rate "
          "serves all) or original (takes a rate of its own, some ten times as high)"),
      number_or_none_key("optimizer", &C::optimizer, "max_grad_norm", &Optimizer::max_grad_norm,
                         "clip the global gradient norm to this; 0 or none: no clipping"),
      key("optimizer", &C::optimizer, "moments_dtype", &Optimizer::moments_dtype,
          "float32, or bf16 with stochastic rounding: half the memory"),

      key("checkpoint", &C::checkpoint, "save_strategy", &Checkpoint::save_strategy,
          "when to save: steps (every save_steps), epoch (at the end of each), best (when an evaluation is the best so "
          "far) or no; a run always saves at its end"),
      key("checkpoint", &C::checkpoint, "save_steps", &Checkpoint::save_steps,
          "steps between checkpoints; 0: only at the end", 0, "0 (only at the end) or more"),
      key("checkpoint", &C::checkpoint, "save_total_limit", &Checkpoint::save_total_limit,
          "checkpoints to keep, those saved last and the best; 0: all", 0, "0 (keep all) or more"),
      key("checkpoint", &C::checkpoint, "save_only_model", &Checkpoint::save_only_model,
          "checkpoints hold the trained weights alone: no run can go on from them; one that a signal or an error stops "
          "saves all"),
      resume_key("none, auto (the one saved last in output_dir, if any; also written true or latest) or the path of a "
                 "checkpoint"),
      save_hub_model_key(
          "leave the finished model in hub format in output_dir/model; every_save: the model of each checkpoint; auto: "
          "when the run began from a model"),
      key("checkpoint", &C::checkpoint, "files_per_node", &Checkpoint::files_per_node,
          "shard files that the ranks of a node write together, at most; 0: one a rank"),
      truth_or_auto_key(
          "checkpoint", &C::checkpoint, "async", &Checkpoint::async,
          "write a checkpoint beside training, from a copy of it in the node's memory; auto: where there is room "
          "for the copy"),

      key("device", &C::device, "backend", &Device::backend,
          "auto, cpu or cuda; auto: GPUs where every rank sees one of its own"),
      key("device", &C::device, "comm", &Device::comm,
          "between GPUs: auto, nccl, host: through the nodes' memory and MPI, slower, for ranks that share a GPU, or "
          "mpi: a CUDA-aware MPI, from the GPUs' memory"),
      key("device", &C::device, "attention", &Device::attention,
          "on GPUs: auto (own), own, hopper: this program's kernels for H100 and H200, for bf16 and heads of up to "
          "128, "
          "cudnn_forward or cudnn: cuDNN's forward pass, or both, for bf16, cudnn_unordered: both, faster backward, "
          "and no run repeats its bits; the last four where they give the same at the start of the run"),
      truth_or_auto_key("device", &C::device, "cuda_graphs", &Device::cuda_graphs,
                        "on GPUs: queue chains of kernels that come again with the same arguments by one launch, as "
                        "CUDA graphs; auto: where a micro-batch is so small that the GPU waits for the host"),
      key("device", &C::device, "matmul_autotune", &Device::matmul_autotune,
          "on GPUs: before the first step, time the algorithms that cuBLASLt proposes for each matrix product and take "
          "the fastest; kept for this kind of GPU, and with the run"),
      key("device", &C::device, "comm_timeout_s", &Device::comm_timeout_s,
          "end a run when no rank gets on for so long, 6 times as long before the end of the first step, and say "
          "which rank all wait for; 0: never",
          0, "0 (never) or more seconds"),
      key("device", &C::device, "dp_replicate_max_ctas", &Device::dp_replicate_max_ctas,
          "thread blocks that NCCL may use for this axis; 0: its own choice"),
      key("device", &C::device, "dp_shard_max_ctas", &Device::dp_shard_max_ctas, "the same for dp_shard x ep x sp"),
      key("device", &C::device, "ep_max_ctas", &Device::ep_max_ctas, "the same for ep"),
      key("device", &C::device, "sp_max_ctas", &Device::sp_max_ctas, "the same for sp"),
      key("device", &C::device, "tp_max_ctas", &Device::tp_max_ctas, "the same for tp"),
      key("device", &C::device, "peak_tflops", &Device::peak_tflops,
          "peak TFLOP/s of one rank, for mfu; 0: unknown, no mfu", 0, "0 (unknown) or more"),
  };
}

}  // namespace

const std::vector<Key>& keys() {
  static const std::vector<Key> table = make_keys();
  return table;
}

const Key* find_key(const std::string& full_name) {
  for (const Key& key : keys()) {
    if (key.full_name() == full_name) return &key;
  }
  return nullptr;
}

std::vector<const Key*> keys_named(const std::string& name) {
  std::vector<const Key*> found;
  for (const Key& key : keys()) {
    if (key.name == name) found.push_back(&key);
  }
  return found;
}

std::vector<std::string> section_names() {
  std::vector<std::string> names;
  for (const Key& key : keys()) {
    if (names.empty() || names.back() != key.section) names.push_back(key.section);
  }
  return names;
}

}  // namespace sft::config
