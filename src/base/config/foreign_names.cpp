// SPDX-License-Identifier: Apache-2.0
#include "config/foreign_rows.hpp"

namespace sft::config {

namespace {

const char* const under_parallel =
    "write the sizes under [parallel]: dp_replicate_size, dp_shard_size, sp_size, tp_size";
const char* const plain_adapters = "there are no weights in 8 bits, and no adapters but LoRA on linear layers";
const char* const prepared = "sft trains on rows that sft-prepare has packed";
const char* const to_prepare = "give the option to sft-prepare";
const char* const mpirun_starts = "mpirun starts the ranks";
const char* const by_mpirun = "give the number of ranks to `mpirun -np`, and hosts to --hostfile or the batch system";
const char* const no_padding =
    "padding is not computed, so that rows of unlike lengths cost what their tokens cost; they come in random order or "
    "in "
    "that of the file";
const char* const rows_alike =
    "leave it out, or set data.shuffle; sft-prepare --packing_strategy balanced makes rows of equal work";
const char* const units = "parallel.fsdp_units says what is gathered together, and it is gathered one unit ahead";
const char* const stages = "it names what is sharded, which is parallel.zero_stage here";
const char* const write_stage =
    "set parallel.zero_stage to 0, 1, 2 or 3, and parallel.dp_replicate_size where groups of ranks hold copies";
const char* const own_files = "sft reads a file of Accelerate or DeepSpeed in place of an .ini file, and no second one";
const char* const own_files_way_out = "give it to sft-launch, which reads it, or the file itself: sft --config FILE";
const char* const no_ddp = "it is of torch's DistributedDataParallel, which is not used";
const char* const no_megatron = "nothing of Megatron-LM is used";

std::vector<ForeignRow> mesh_rows() {
  const char* const stage_0 = "parallel.zero_stage=0";
  const char* const stage_2 = "parallel.zero_stage=2";
  const char* const stage_3 = "parallel.zero_stage=3";
  return {
      {"cp_size parallelism_config_cp_size", {{"none", ""}, {"1", ""}, {"*", "parallel.sp_size=*"}}, "", ""},
      {"cp_backend tp_handler cp_handler sp_handler", anything, "attention over sp is sft's own", leave_out},
      {"cp_comm_strategy",
       {{"none", ""},
        {"allgather", "parallel.sp_method=all_gather"},
        {"alltoall", "parallel.sp_method=ring"},
        {"ring", "parallel.sp_method=ring"}},
       "keys and values are gathered, or go from rank to rank",
       "set parallel.sp_method to all_gather, ring, ulysses, hybrid or auto"},
      {"sp_backend",
       {{"none", ""}, {"deepspeed", "parallel.sp_method=ulysses"}},
       "the one backend of this name is deepspeed, which exchanges heads",
       "set parallel.sp_method to ulysses, or to all_gather, ring, hybrid or auto"},
      {"sp_attn_implementation", anything, "there is one implementation of attention", leave_out},
      {"sp_seq_length sp_seq_length_is_variable", nothing, "rows have the length that they were prepared with",
       "give --max_length to sft-prepare"},
      {"enable_async_tp", only_false, "sums over tp are in float32 and in a fixed order", leave_out},
      {"tp tensor_parallel_size tensor_model_parallel_size model_parallel_size", nothing, "its name here is tp_size",
       "write parallel.tp_size"},
      {"ep expert_parallel_size expert_model_parallel_size", nothing, "its name here is ep_size",
       "write parallel.ep_size"},
      {"megatron_lm_tp_degree", nothing, "its name here is tp_size", "write parallel.tp_size"},
      {"megatron_lm_context_parallel_size", nothing, "its name here is sp_size", "write parallel.sp_size"},
      {"megatron_lm_gradient_clipping", {{"*", "optimizer.max_grad_norm=*"}}, "", ""},
      {"sequence_parallel enable_sequence_parallel megatron_lm_sequence_parallelism",
       {{"true", "parallel.tp_sequence_parallel=true"}, {"false", "parallel.tp_sequence_parallel=false"}, {"none", ""}},
       "it is true or false",
       "set parallel.tp_sequence_parallel to true or false"},
      {"mixed_precision_reduce communication_data_type",
       {{"float32", "parallel.reduce_dtype=float32"},
        {"fp32", "parallel.reduce_dtype=float32"},
        {"bfloat16", "parallel.reduce_dtype=bf16"},
        {"bf16", "parallel.reduce_dtype=bf16"},
        {"none", ""}},
       "gradients travel as float32 or bf16",
       "set parallel.reduce_dtype to float32 or bf16"},
      {"grad_reduce_in_bf16",
       {{"true", "parallel.reduce_dtype=bf16"}, {"false", "parallel.reduce_dtype=float32"}, {"none", ""}},
       "it is true or false",
       "set parallel.reduce_dtype to float32 or bf16"},
      {"cp sp context_parallel_size sequence_parallel_size ulysses_sequence_parallel_size", nothing,
       "its name here is sp_size", "write parallel.sp_size"},
      {"dp data_parallel_size dp_size", nothing, "there are two kinds of data parallelism here",
       "write parallel.dp_replicate_size for copies of the model and parallel.dp_shard_size for shared parameters"},
      {"sharding_strategy",
       {{"FULL_SHARD", stage_3},
        {"1", stage_3},
        {"SHARD_GRAD_OP", stage_2},
        {"2", stage_2},
        {"NO_SHARD", stage_0},
        {"3", stage_0},
        {"HYBRID_SHARD", stage_3},
        {"4", stage_3},
        {"HYBRID_SHARD_ZERO2", stage_2},
        {"5", stage_2}},
       stages,
       write_stage},
      {"fsdp_reshard_after_forward",  // of FSDP's first version: a strategy
       {{"FULL_SHARD", stage_3},
        {"SHARD_GRAD_OP", stage_2},
        {"NO_SHARD", stage_0},
        {"HYBRID_SHARD", stage_3},
        {"HYBRID_SHARD_ZERO2", stage_2},
        {"*", "parallel.reshard_after_forward=*"}},
       "",
       ""},
      {"fsdp",  // one of its words
       {{"none", ""},
        {"true", ""},
        {"auto_wrap", ""},
        {"full_shard", stage_3},
        {"shard_grad_op", stage_2},
        {"no_shard", stage_0},
        {"hybrid_shard", stage_3},
        {"hybrid_shard_zero2", stage_2},
        {"offload", "train.offload_parameters=host"}},
       stages,
       write_stage},
      {"fsdp_xla fsdp_xla_fsdp_v2 fsdp_xla_fsdp_grad_ckpt", only_false, "there is no TPU backend", leave_out},
      {"fsdp_xla_fsdp_settings", only_none, "there is no TPU backend", leave_out},
      {"auto_wrap_policy", {{"TRANSFORMER_BASED_WRAP", "parallel.fsdp_units=block"}, {"*", ""}}, units, leave_out},
      {"fsdp_config deepspeed deepspeed_config hf_ds_config parallelism_config accelerator_config fp8_config",
       only_none, own_files, own_files_way_out},
      {"megatron_lm_config", only_none, no_megatron, under_parallel},
      {"fsdp_version version backward_prefetch transformer_cls_names_to_wrap "
       "transformer_layer_cls_to_wrap min_num_params transformer_moe_cls_names",
       anything, units, leave_out},
      {"forward_prefetch limit_all_gathers use_orig_params sync_module_states cpu_ram_efficient_loading", either, units,
       leave_out},
      {"state_dict_type", anything, "checkpoints are sharded and read as whole tensors", leave_out},
      {"gradient_accumulation_kwargs ignored_modules state_dict_config optim_state_dict_config param_init_fn",
       only_none, units, leave_out},
      {"zero3_init_flag is_train_batch_min", either, "ranks read their part of the weights, and of the rows",
       leave_out},
      {"zero3_save_16bit_model", either, "a finished run leaves the whole model in any case", leave_out},
      {"gradient_clipping", {{"*", "optimizer.max_grad_norm=*"}}, "", ""},
      {"ddp_bucket_cap_mb ddp_backend", anything, no_ddp, leave_out},
      {"ddp_timeout", {{"*", "device.comm_timeout_s=*"}}, "", ""},
      {"ddp_find_unused_parameters ddp_broadcast_buffers ddp_static_graph", either, no_ddp, leave_out},
      {"split_batches dispatch_batches", only_false, "every rank reads its own rows", leave_out},
      {"even_batches", either, "no row comes twice: ranks that have none left wait", leave_out},
      {"use_seedable_sampler",
       {{"true", ""}},
       "rows come in the order of accelerate's seedable sampler",
       "leave it out; data.seed gives another order, data.shuffle = false that of the file"},
      {"non_blocking use_configured_state", either, "rows go to the device while it computes", leave_out},
      {"use_cpu no_cuda cpu",
       {{"true", "device.backend=cpu"}, {"false", ""}, {"none", ""}},
       "it is true or false",
       "set device.backend to cpu, cuda or auto"},
  };
}

/// Names of `accelerate launch`, `accelerate config` and their files that say how processes start.
std::vector<ForeignRow> launch_rows() {
  const char* const no_tpu = "there is no TPU backend";
  const char* const mesh = "the mesh and parallel.zero_stage say what is distributed";
  return {
      {"num_processes main_process_ip main_process_port rdzv_conf n_gpu world_size mpirun_config mpirun_hostfile "
       "max_restarts monitor_interval role tee log_dir",
       nothing, mpirun_starts, by_mpirun},
      {"num_machines", {{"1", ""}}, mpirun_starts, by_mpirun},
      {"machine_rank", {{"0", ""}}, mpirun_starts, by_mpirun},
      {"same_network", either, mpirun_starts, by_mpirun},
      {"rdzv_backend", {{"static", ""}, {"none", ""}}, mpirun_starts, by_mpirun},
      {"gpu_ids",
       {{"all", ""}, {"none", ""}},
       "each rank of a node takes a GPU of its own",
       "set CUDA_VISIBLE_DEVICES in the environment"},
      {"multi_gpu use_fsdp use_deepspeed", either, mesh, under_parallel},  // composed.cpp knows their stages
      {"num_cpu_threads_per_process", nothing, "OpenMP starts the threads of a rank",
       "set OMP_NUM_THREADS in the environment"},
      {"module no_python", only_false, "sft is a program of its own", leave_out},
      {"quiet", either, "it is of accelerate launch, which is not used", leave_out},
      {"compute_environment", {{"LOCAL_MACHINE", ""}}, mpirun_starts, by_mpirun},
      {"distributed_type",  // the keys beside it say the rest; without any, ranks have copies of the model
       {{"none", ""}, {"NO", ""}, {"FSDP", ""}, {"DEEPSPEED", ""}, {"MULTI_GPU", ""}, {"MULTI_CPU", ""}},
       mesh,
       under_parallel},
      {"use_parallelism_config", either, mesh, under_parallel},
      {"use_megatron_lm", only_false, no_megatron, under_parallel},
      {"config_file deepspeed_*", nothing, own_files, own_files_way_out},
      {"megatron_lm_*", nothing, no_megatron, under_parallel},
      {"deepspeed_multinode_launcher", {{"standard", ""}, {"none", ""}}, mpirun_starts, by_mpirun},
      {"deepspeed_hostfile deepspeed_inclusion_filter deepspeed_exclusion_filter", nothing, mpirun_starts, by_mpirun},
      {"aws_* ec2_instance_type iam_role_name image_uri profile region base_job_name pytorch_version py_version "
       "sagemaker_* additional_args",
       only_none, "nothing runs on SageMaker", by_mpirun},
      {"main_training_function local_rank local_process_index ray_scope mp_parameters", anything, mpirun_starts,
       leave_out},
      {"debug",
       {{"true", ""}, {"false", ""}, {"none", ""}, {"[]", ""}},
       "a step whose loss or gradients overflow ends the run, or is left out (train.nan_policy)",
       leave_out},
      {"enable_cpu_affinity", either, "sft-run and the launcher of the site bind ranks to cores", leave_out},
      {"use_mps_device", either, no_effect, leave_out},
      {"tpu_use_cluster tpu_use_sudo tpu tpu_cluster no_tpu_cluster tpu_metrics_debug", only_false, no_tpu, leave_out},
      {"tpu_name tpu_zone tpu_vm tpu_env tpu_num_cores command_file commands vm", only_none, no_tpu, leave_out},
      {"env", only_none, "variables are set before the ranks start",
       "set them in front of mpirun, or use sft-launch, which does"},
  };
}

std::vector<ForeignRow> logging_rows() {
  return {
      {"logging_strategy",
       {{"steps", ""}},
       "lines of metrics.jsonl are written by steps",
       "set train.logging_steps; a large number leaves the last step alone"},
      {"logging_nan_inf_filter", either,
       "NaN and Inf are never hidden: they end the run with status 4, or leave a step out (train.nan_policy)",
       leave_out},
      {"logging_dir", nothing, "metrics go to output_dir/metrics.jsonl", "set train.output_dir"},
      {"run_name project wandb_project wandb_entity wandb_run_group trackio_space_id trackio_bucket_id "
       "trackio_static_space_id",
       anything, "sft sends nothing anywhere; postprocess/track.py, which does, takes names of its own", leave_out},
      {"log_level log_level_replica", anything, "there is one level of messages, and rank 0 writes them", leave_out},
      {"include_num_input_tokens_seen",
       {{"true", ""}, {"false", ""}, {"none", ""}, {"all", ""}, {"non_padding", ""}},
       "lines of metrics.jsonl always count the tokens",
       "write all, non_padding or no"},
      {"log_on_each_node disable_tqdm include_tokens_per_second", either,
       "rank 0 writes messages and metrics.jsonl, which always has the tokens of a second", leave_out},
  };
}

std::vector<ForeignRow> evaluation_rows() {
  return {
      {"evaluation_strategy", {{"*", "train.eval_strategy=*"}}, "", ""},
      {"do_eval", either, "data.eval_files says whether there is an evaluation", leave_out},
      {"do_train",
       {{"true", ""}, {"none", ""}},
       "sft trains, and does nothing else",
       "leave it out; with max_steps = 0 it evaluates only, and `sft INPUT.ini --dry-run` trains nothing"},
      {"do_predict", only_false, "sft trains, and does nothing else", "use sft-generate on a checkpoint"},
      {"per_device_eval_batch_size per_gpu_eval_batch_size eval_accumulation_steps label_names", anything,
       "evaluation takes batches of the size of training's, and its numbers do not depend on it", leave_out},
      {"prediction_loss_only eval_do_concat_batches eval_use_gather_object batch_eval_metrics "
       "include_inputs_for_metrics",
       either, no_effect, leave_out},
      {"include_for_metrics", only_none, "evaluation gives eval_loss, eval_mean_token_accuracy and eval_entropy",
       leave_out},
      {"eval_packing", only_false, prepared, "prepare the files for evaluation with --packing true or false"},
  };
}

std::vector<ForeignRow> saving_rows() {
  return {
      {"save_on_each_node", only_false, "the ranks write one checkpoint together", leave_out},
      {"save_safetensors", nothing, "checkpoints are HDF5 files", leave_out},
      {"enable_jit_checkpoint", either, "a stopped run always saves and ends with status 75", leave_out},
      {"ignore_data_skip", only_false, "a resumed run goes on where it was in the data", leave_out},
      {"restore_callback_states_from_checkpoint", only_false, "there are no such states", leave_out},
      {"overwrite_output_dir", either,
       "resume_from_checkpoint says where a run begins; checkpoints of other runs stay, as with transformers",
       leave_out},
      {"push_to_hub hub_always_push", only_false, "sft sends nothing anywhere",
       "leave it out; sft-launch, which takes it, sends what a run leaves"},
      {"hub_model_id hub_token hub_strategy hub_revision hub_model_revision push_to_hub_model_id push_to_hub_token",
       anything, "sft sends nothing anywhere", leave_out},
      {"push_to_hub_organization", only_none, "it is a part of the repository's name",
       "write hub_model_id = OWNER/NAME"},
      {"hub_private_repo", either, "sft sends nothing anywhere", leave_out},
  };
}

std::vector<ForeignRow> data_rows() {
  return {
      {"data_seed", {{"none", ""}, {"*", "data.seed=*"}}, "", ""},
      {"train_sampling_strategy",
       {{"random", "data.shuffle=true"}, {"sequential", "data.shuffle=false"}, {"none", ""}},
       no_padding,
       rows_alike},
      {"group_by_length", only_false, no_padding, rows_alike},
      {"dataloader_num_workers dataloader_prefetch_factor dataloader_multiprocessing_context "
       "length_column_name",
       anything, "every rank reads its rows ahead in a thread; no row is dropped", leave_out},
      {"dataloader_drop_last", only_false, "every row of an epoch is trained on", leave_out},
      {"dataloader_pin_memory dataloader_persistent_workers dataloader_in_order remove_unused_columns", either,
       "every rank reads its rows ahead in a thread; no row is dropped", leave_out},
      {"padding_free", either, "padding is never computed", leave_out},
      {"packing packing_strategy pad_to_multiple_of completion_only_loss assistant_only_loss shuffle_dataset "
       "tokenizer num_shards",
       nothing, prepared, to_prepare},
      {"max_length max_seq_length model_max_length", nothing, prepared, "give --max_length to sft-prepare"},
      {"truncation_mode dataset_text_field dataset_kwargs dataset_num_proc chat_template chat_template_path eos_token "
       "pad_token "
       "dataset_batch_size num_of_sequences formatting_func processing_class rename prompt_template end_of_turn "
       "max_samples "
       "known_pad_token eval_split prepared_dir test_datasets",
       nothing, prepared, "see `sft-prepare --help` for what can be chosen"},
      {"dataset_name dataset_path dataset_config dataset_train_split dataset_test_split datasets test_split_size "
       "dataset "
       "path name data_dir data_files split columns fraction",
       nothing, prepared,
       "prepare JSON-lines files with `sft-prepare --input FILE --output FOLDER` and set "
       "data.train_files = FOLDER/train-*.h5"},
      {"dataset_configs", nothing, "of a data set one config is read",
       "write `dataset_config: NAME`, or `datasets:` with `path: NAME` and `name: CONFIG` for each"},
      {"dataset_mixer dataset_splits", nothing, "data sets are a list, each with its split",
       "write `datasets:` with `- path: NAME` and `split: NAME` for each"},
      {"preprocessing_num_workers", anything, "sft-prepare makes tokens on all cores", leave_out},
      {"system_prompt", only_none, "conversations are those of the records", "write it into the records"},
      {"callbacks benchmarks", only_none, "a run saves, and evaluates the loss on held-back rows", leave_out},
      {"dataset_streaming streaming", either, prepared, leave_out},
      {"train_dataset train_file", nothing, "its name is train_files", "write data.train_files = FOLDER/train-*.h5"},
  };
}

std::vector<ForeignRow> model_rows() {
  return {
      {"trust_remote_code", either, "no foreign code is run", leave_out},
      {"model_init_kwargs", only_none, "it is a JSON object of what from_pretrained takes",
       R"(write {"dtype": "bfloat16"}, or leave it out)"},
      {"use_kernels low_cpu_mem_usage use_safetensors local_files_only", either,
       "sft has kernels of its own and reads weights in pieces", leave_out},
      {"device_map", {{"none", ""}, {"auto", ""}}, "the mesh says what lies where", under_parallel},
      {"experts_implementation", anything, "sft has kernels of its own; these choices change rounding at most",
       leave_out},
      {"load_in_8bit", only_false, plain_adapters, "set lora.load_in_4bit = true instead, or leave it out"},
      {"lora_task_type", {{"CAUSAL_LM", ""}, {"none", ""}}, "sft trains causal language models alone", leave_out},
      {"peft_config", only_none, plain_adapters, leave_out},
      {"bnb_4bit_use_double_quant", {{"none", ""}, {"*", "lora.use_bnb_nested_quant=*"}}, "", ""},
      {"bnb_4bit_compute_dtype", only_none, "products are computed as train.precision says",
       "set train.precision = bf16 or fp32 instead"},
      {"bnb_4bit_quant_storage",
       {{"none", ""}, {"uint8", ""}, {"float16", ""}, {"bfloat16", ""}, {"float32", ""}},
       "codes of 4 bits lie two in a byte, whatever the bytes are called",
       "write uint8, float16, bfloat16 or float32"},
      {"lora_modules_to_save", {{"none", ""}, {"*", "lora.modules_to_save=*"}}, "", ""},
      {"ignore_bias_buffers", either, no_ddp, leave_out},
      {"architectures model_type transformers_version bos_token_id eos_token_id max_window_layers "
       "id2label label2id",
       anything, no_effect, leave_out},
      {"rope_parameters", nothing, "its names here are rope_theta and rope_scaling",
       "write model.rope_theta, and model.rope_scaling"},
      {"quantization_config", only_none, plain_adapters, leave_out},
      {"use_sliding_window", only_false, "its name here is sliding_window", "write model.sliding_window"},
      {"attention_dropout", {{"0", ""}, {"0.0", ""}, {"none", ""}}, "there is no dropout", leave_out},
      {"pretraining_tp", {{"1", ""}}, "its meaning is that of tensor parallelism", "write parallel.tp_size"},
  };
}

}  // namespace

std::vector<ForeignRow> foreign_rows_of_sft() {
  std::vector<ForeignRow> all;
  for (const auto& rows : {foreign_rows_of_computing(), mesh_rows(), launch_rows(), logging_rows(), evaluation_rows(),
                           saving_rows(), data_rows(), model_rows()}) {
    all.insert(all.end(), rows.begin(), rows.end());
  }
  return all;
}

}  // namespace sft::config
