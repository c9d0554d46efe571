// SPDX-License-Identifier: Apache-2.0
#pragma once
// The whole configuration of a run, as one struct (valid_config.hpp: one that can run). Key names are those of the .ini
// sections.

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sft/config/attention_choice.hpp"
#include "sft/config/lora.hpp"
#include "sft/config/optimizer_kind.hpp"
#include "sft/config/scheduler.hpp"
#include "sft/core/axis.hpp"
#include "sft/core/dtype.hpp"
#include "sft/sequence/attention.hpp"

namespace sft::config {

enum class Precision {
  fp32,
  bf16,       ///< computing in bf16 with float32 master weights
  pure_bf16,  ///< bf16 weights alone, updated with stochastic rounding
};
/// Whether products of linear layers of blocks are in 8-bit floats, and what of an operand shares a scale.
enum class Fp8 {
  none,
  tensorwise,  ///< all of it (torchao's and Transformer Engine's current scaling)
  blockwise,   ///< 128 neighbours of activations and gradients, 128 x 128 of weights (DeepSeek-V3)
};
/// Where state lies between two uses. On the CPU, host memory is that of the device.
enum class Offload { none, host, nvme };
/// Where activations wait that are moved out. automatic: a GPU's in the node's memory, a CPU's in files.
enum class ActivationPlace { automatic, nvme };
/// What of a block's activations is computed again in the backward pass rather than kept; see docs/configuration.md.
enum class ActivationCheckpointing { none, selective, full };
/// How Muon's rate follows from the shape of a matrix: adjust_lr_fn of torch.optim.Muon.
enum class LrAdjustment { match_rms_adamw, original };
enum class BackendChoice { automatic, cpu, cuda };
/// How tensors get from GPU to GPU: by NCCL, or through the memory of the nodes and MPI.
enum class CommChoice { automatic, nccl, host, mpi };
/// How epochs follow one another: as TRL does it, or with whole batches throughout (rows::OrderKind).
enum class RowOrder { automatic, trl, endless };
/// What becomes of a unit that was gathered for the forward pass, until its backward pass.
enum class Reshard {
  never,      ///< every rank keeps it
  always,     ///< no rank does: all of them gather it again (FSDP, Zhao et al. 2023)
  to_groups,  ///< groups of neighbours each keep it together, and gather it among themselves
};
/// When the run evaluates, and when it saves, beside the end; those of transformers.
enum class EvalStrategy { no, steps, epoch };
enum class SaveStrategy { no, steps, epoch, best };
/// A number of an evaluation that models are compared by; eval_NAME in metrics.jsonl.
enum class EvalMetric { loss, mean_token_accuracy, entropy };
/// The loss of a token: -log(p) of its target, or Dynamic Fine-Tuning's -p log(p) (ops::TokenLoss).
enum class LossType { nll, dft };
/// What becomes of a step whose loss or gradient norm is NaN or Inf.
enum class NanPolicy {
  stop,  ///< it ends the run
  skip,  ///< it is left out: weights and optimizer stay as they were before it
};
/// Where metrics go beside metrics.jsonl.
enum class Reporter {
  tensorboard,
  prometheus,
  wandb,  ///< this and what follows: postprocess/track.py sends them, from where there is a network
  mlflow,
  trackio,
  swanlab,
};
/// When a run leaves its model in hub format.
enum class HubModel {
  automatic,  ///< until validate(): at the end, where it began from a model
  never,
  at_end,
  every_save,  ///< with each checkpoint, each time in place of the one before
};
enum class SpMethod { ring, all_gather, ulysses, hybrid, automatic };
/// Where a block has norms, beside those of q and k, and what they are called.
enum class BlockNorms {
  pre,     ///< before attention and before the MLP
  glm4,    ///< also behind each of the two, of what it adds
  olmo2,   ///< behind each of the two alone
  gemma2,  ///< as glm4, under other names
};
/// What the MLP puts its gate through: those of transformers.
enum class Activation { silu, gelu_pytorch_tanh, relu2 };
/// What routers make of logits: the softmax over all experts, or the sigmoid of each (DeepSeek-V3, GLM-4.5).
enum class ScoringFunc { softmax, sigmoid };
/// What experts, and the router before them, consist of.
enum class ExpertForm {
  swiglu,   ///< gate, up and down without biases
  gpt_oss,  ///< biases everywhere; gate and up in turn, cut off at swiglu_limit (ops::Gate::clamped_swish)
};
enum class RopeType { plain, linear, dynamic, yarn, llama3, longrope };

struct RopeScaling {
  RopeType rope_type = RopeType::plain;
  double factor = 1.0;
  double low_freq_factor = 1.0;   ///< llama3
  double high_freq_factor = 4.0;  ///< llama3
  std::int64_t original_max_position_embeddings = 8192;
  double attention_factor = 1.0;  ///< yarn and longrope: scales cosine and sine
  double beta_fast = 32.0;        ///< yarn: turns within the original context from which on a frequency stays
  double beta_slow = 1.0;         ///< yarn: turns up to which a frequency is divided by factor
  bool truncate = true;           ///< yarn: the ramp between the two begins and ends at whole dims
  /// longrope: what each frequency is divided by, for texts of the original context and for longer ones
  std::vector<double> short_factor = {}, long_factor = {};

  bool operator==(const RopeScaling&) const = default;
};

struct Model {
  std::string model_name_or_path;       ///< where weights and architecture come from; empty: random weights
  std::string model_revision = "main";  ///< of a name in the hub cache
  std::int64_t hidden_size = 0;
  std::int64_t num_hidden_layers = 0;
  std::int64_t num_attention_heads = 0;
  std::int64_t num_key_value_heads = 0;  ///< 0 in the file: num_attention_heads
  std::int64_t head_dim = 0;             ///< 0 in the file: hidden_size / num_attention_heads
  std::int64_t intermediate_size = 0;
  std::int64_t vocab_size = 0;
  /// The token whose row of the embedding table gets no gradient as an input (padding_idx of torch.nn.Embedding),
  /// though it does as an output of a tied head; -1: none.
  std::int64_t pad_token_id = -1;
  double rope_theta = 10000.0;
  RopeScaling rope_scaling;
  double rms_norm_eps = 1e-6;
  bool tie_word_embeddings = false;
  bool attention_bias = false;               ///< biases on q, k and v (Qwen2)
  bool attention_output_bias = false;        ///< a bias on o (Llama's attention_bias sets both)
  bool mlp_bias = false;                     ///< biases on gate, up and down
  bool qk_norm = false;                      ///< RMSNorm on every head of q and k (Qwen3)
  bool qk_norm_all_heads = false;            ///< with qk_norm: over all heads together, before rotation (OLMo 2)
  bool qk_norm_after_rope = false;           ///< with qk_norm: heads are rotated, then normed (Hunyuan)
  bool zero_centered_norms = false;          ///< all norms multiply by 1 + weight (Gemma)
  Activation hidden_act = Activation::silu;  ///< of the MLP's gate, or of up where it has none
  bool gated_mlp = true;                     ///< false: act(up) goes through down (Arcee)
  BlockNorms block_norms = BlockNorms::pre;  ///< where they stand (GLM-4: pre and post)
  double partial_rotary_factor = 1.0;        ///< share of the dims of a head that are rotated, the first ones
  double llama_4_scaling_beta = 0.0;         ///< how queries grow with their position (Ministral 3)
  std::vector<int> no_rope_layers;           ///< by layer: 1 rotated, 0 not (SmolLM3); empty: all are
  double rope_local_base_freq = 0.0;         ///< rope_theta of sliding layers, without rope_scaling; 0: as all others
  double embedding_multiplier = 1.0;         ///< of the embedding (Granite)
  bool rounds_embedding_multiplier = false;  ///< to the dtype of computing (Gemma)
  double attention_multiplier = 0.0;         ///< of attention's scores; 0: 1 / sqrt(head_dim)
  double attn_logit_softcapping = 0.0;       ///< c: those are c tanh(score / c) then (Gemma 2); 0: not
  bool attention_sinks = false;              ///< a learned score of no value for each head (gpt-oss)
  double residual_multiplier = 1.0;          ///< of what attention and MLP add to the residual stream
  double logits_scaling = 1.0;               ///< what logits are divided by
  double final_logit_softcapping = 0.0;      ///< logits are capped to c tanh(x / c) (Gemma 2); 0: they are not
  std::int64_t max_position_embeddings = 0;  ///< the longest document that the model is made for; 0: not known
  /// How far back a token of a sliding layer sees, itself included (Beltagy et al. 2020); 0: all of the document.
  std::int64_t sliding_window = 0;
  /// By layer: full_attention or sliding_attention; empty: with a window all slide.
  std::vector<std::string> layer_types;
  /// Experts of a layer (Shazeer et al. 2017), whose MLP they are; 0: all MLPs are dense.
  std::int64_t num_experts = 0;
  std::int64_t num_experts_per_tok = 0;    ///< of them, that a token goes through
  std::int64_t moe_intermediate_size = 0;  ///< width of an expert
  ExpertForm expert_form = ExpertForm::swiglu;
  double swiglu_alpha = 1.702, swiglu_limit = 7.0;  ///< of the experts of gpt-oss
  bool norm_topk_prob = false;                      ///< a token's weights of its experts are divided by their sum
  std::vector<int> mlp_only_layers;                 ///< numbers of layers, from 0, whose MLP is dense for all that
  double router_aux_loss_coef = 0.001;              ///< of the auxiliary loss that balances experts
  /// Sigmoid scores are compared with a correction of each expert added to them, which is not trained.
  ScoringFunc scoring_func = ScoringFunc::softmax;
  /// Groups of neighbouring experts, and how many of them the experts of a token may be of.
  std::int64_t n_group = 1, topk_group = 1;
  double routed_scaling_factor = 1.0;  ///< of a token's weights of its experts
  std::int64_t n_shared_experts = 0;   ///< as wide as so many experts: an MLP that all tokens go through as well
  std::uint64_t init_seed = 0;
  double initializer_range = 0.02;

  /// The dims of a head that are rotated, the first ones.
  [[nodiscard]] std::int64_t rotary_dim() const {
    return static_cast<std::int64_t>(static_cast<double>(head_dim) * partial_rotary_factor);
  }
  /// The window of a layer, 0 where it sees the whole document.
  [[nodiscard]] std::int64_t window_of(std::size_t layer) const {
    return layer_types.empty() || layer_types[layer] == "sliding_attention" ? sliding_window : 0;
  }
  /// Whether that layer has the rotary embedding of rope_local_base_freq.
  [[nodiscard]] bool has_local_rope(std::size_t layer) const {
    return rope_local_base_freq > 0.0 && !layer_types.empty() && layer_types[layer] == "sliding_attention";
  }
  /// Whether blocks have norms before attention and MLP, and of what these add.
  [[nodiscard]] bool norms_inputs() const { return block_norms != BlockNorms::olmo2; }
  [[nodiscard]] bool norms_branches() const { return block_norms != BlockNorms::pre; }
  /// Whether queries and keys of that layer are rotated.
  [[nodiscard]] bool rotates(std::size_t layer) const { return no_rope_layers.empty() || no_rope_layers[layer] != 0; }
  /// Whether the MLP of that layer is one of experts.
  [[nodiscard]] bool has_experts(std::size_t layer) const {
    return num_experts > 0 && std::ranges::find(mlp_only_layers, static_cast<int>(layer)) == mlp_only_layers.end();
  }
  [[nodiscard]] std::int64_t num_expert_layers() const;
  /// Width of the MLP that stands beside the experts of a layer; 0: none does.
  [[nodiscard]] std::int64_t shared_intermediate_size() const { return n_shared_experts * moe_intermediate_size; }
  [[nodiscard]] bool has_dense_layers() const { return num_expert_layers() < num_hidden_layers; }

  bool operator==(const Model&) const = default;
};

struct Data {
  std::vector<std::string> train_files;  ///< paths or globs, separated by white space or commas in the file
  std::vector<std::string> eval_files;   ///< the same; empty: no evaluation
  bool shuffle = true;
  RowOrder row_order = RowOrder::automatic;  ///< until rank::row_order says which
  std::uint64_t seed = 42;
};

struct Parallel {
  int dp_replicate_size = 1;
  int dp_shard_size = 0;  ///< 0 ("auto") until validate(): what is left of the world size
  int ep_size = 1;
  int sp_size = 1;
  int tp_size = 1;
  int zero_stage = 3;
  Reshard reshard_after_forward = Reshard::always;
  int reshard_size = 1;     ///< ranks of a group with Reshard::to_groups: a divisor of those along fsdp_axes
  int blocks_per_unit = 1;  ///< of fsdp_units: 1 ("block"), N, or 0 ("parts": attention and MLP are a unit each)
  SpMethod sp_method = SpMethod::ring;
  int ulysses_size = 0;  ///< 0 ("auto"): what sp_method says; with hybrid and auto until rank::resolve_sp_method
  std::optional<bool> tp_sequence_parallel = {};  ///< none until validate(): where there is tp
  DType reduce_dtype = DType::float32;  ///< in which sums of gradients travel over fsdp and replicate: or bf16
  DType tp_reduce = DType::float32;     ///< in which sums behind products travel over tp: or bf16

  /// By axis; 1 where there is no key.
  [[nodiscard]] AxisArray<int> sizes() const;
  /// What sp_method and ulysses_size mean, neither of them auto any more.
  [[nodiscard]] sequence::AttentionMethod attention_method() const;
  /// Parts that the ranks of tp cut their tokens into where they do not share a product; 1: none, each has all tokens.
  [[nodiscard]] int token_slices() const { return tp_sequence_parallel == true ? tp_size : 1; }
};

/// Steps of a run, counted from 1.
struct StepRange {
  std::int64_t first = 1, last = 0;  ///< the default: none

  [[nodiscard]] bool is_empty() const { return last < first; }
  [[nodiscard]] bool contains(std::int64_t step) const { return first <= step && step <= last; }
};

struct Train {
  std::int64_t per_device_train_batch_size = 8;
  std::int64_t gradient_accumulation_steps = 1;
  std::int64_t max_steps = -1;  ///< -1: num_train_epochs decides; 0: write checkpoint-000000 and end
  double num_train_epochs = 3.0;
  LossType loss_type = LossType::nll;
  double label_smoothing_factor = 0.0;  ///< share of the loss that is the mean over the vocabulary
  double neftune_noise_alpha = 0.0;     ///< of the noise on embeddings (NEFTune); 0: none
  Precision precision = Precision::bf16;
  Fp8 fp8 = Fp8::none;
  ActivationCheckpointing activation_checkpointing = ActivationCheckpointing::none;
  bool activation_offload = false;
  ActivationPlace activation_offload_to = ActivationPlace::automatic;
  /// Tokens that an MLP works on at a time; 0: all of a micro-batch; none ("auto"): all, until rank::choose_pieces.
  std::optional<std::int64_t> mlp_tile_tokens;
  /// Groups of key/value heads that attention works on in turn; none ("auto"): 1, until rank::choose_pieces.
  std::optional<std::int64_t> attention_head_groups;
  Offload offload_optimizer = Offload::none;   ///< the moments
  Offload offload_parameters = Offload::none;  ///< the float32 master weights
  std::string offload_folder;                  ///< of what is offloaded to files
  std::uint64_t seed = 42;
  std::string output_dir = "output";
  std::int64_t logging_steps = 10;
  bool logging_first_step = false;
  std::vector<Reporter> report_to;                   ///< none twice
  EvalStrategy eval_strategy = EvalStrategy::steps;  ///< of a run with eval_files
  std::int64_t eval_steps = -1;                      ///< -1 ("none" in the file): logging_steps; 0: only at the end
  bool eval_on_start = false;
  double eval_delay = 0.0;  ///< steps, with eval_strategy = epoch epochs, before which there is no evaluation
  bool load_best_model_at_end = false;
  std::optional<EvalMetric> metric_for_best_model;  ///< none: no best model, until validate() where others need one
  std::optional<bool> greater_is_better;            ///< none until validate(): as the metric's name says
  std::int64_t early_stopping_patience = 0;         ///< evaluations in a row without improvement; 0: no early stopping
  double early_stopping_threshold = 0.0;            ///< what an improvement has to exceed
  NanPolicy nan_policy = NanPolicy::stop;
  std::int64_t nan_skip_limit = 10;         ///< steps in a row that may be left out
  double loss_watchdog_threshold = 0.0;     ///< 0: no watchdog
  std::int64_t loss_watchdog_patience = 3;  ///< steps in a row with a loss above the threshold
  StepRange profile_steps;                  ///< whose timeline is written

  /// Steps between two evaluations with eval_strategy = steps; 0: only at the end.
  [[nodiscard]] std::int64_t eval_interval() const { return eval_steps < 0 ? logging_steps : eval_steps; }
};

struct Optimizer {
  OptimizerKind optim = OptimizerKind::adamw_torch;
  double learning_rate = 2e-5;
  Scheduler lr_scheduler_type = Scheduler::linear;
  SchedulerKwargs lr_scheduler_kwargs;
  double warmup_steps = 0.0;  ///< below 1: a share of the steps of the run
  double warmup_ratio = 0.0;  ///< the same share, under its older name
  double weight_decay = 0.0;
  double adam_beta1 = 0.9;
  double adam_beta2 = 0.999;
  double adam_epsilon = 1e-8;
  double muon_momentum = 0.95;
  bool nesterov = true;  ///< of Muon
  LrAdjustment adjust_lr_fn = LrAdjustment::match_rms_adamw;
  double max_grad_norm = 1.0;            ///< 0: no clipping
  DType moments_dtype = DType::float32;  ///< or bf16, with stochastic rounding

  /// Whether a step needs all of a matrix at once, not its elements alone.
  [[nodiscard]] bool needs_whole_matrices() const { return optim == OptimizerKind::muon; }
};

struct Checkpoint {
  SaveStrategy save_strategy = SaveStrategy::steps;
  std::int64_t save_steps = 500;      ///< of the strategy steps; 0: only at the end
  std::int64_t save_total_limit = 0;  ///< 0: keep all
  bool save_only_model = false;       ///< checkpoints hold weights alone
  std::string resume_from_checkpoint = "none";
  std::int64_t files_per_node = 8;                ///< shard files that the ranks of a node share; 0: one a rank
  HubModel save_hub_model = HubModel::automatic;  ///< in OUTPUT_DIR/model/; with LoRA: OUTPUT_DIR/adapter/
  /// Whether training goes on while a checkpoint is written, from a copy in the node's memory. None: where the memory
  /// is there (rank::choose_async_save).
  std::optional<bool> async;

  /// Whether checkpoints come before the last step.
  [[nodiscard]] bool has_saves_between() const {
    return save_strategy == SaveStrategy::steps ? save_steps > 0 : save_strategy != SaveStrategy::no;
  }
  /// Whether a rank has memory for such a copy.
  [[nodiscard]] bool has_snapshot() const { return async == true && has_saves_between(); }
};

struct Device {
  BackendChoice backend = BackendChoice::automatic;
  CommChoice comm = CommChoice::automatic;
  AttentionChoice attention = AttentionChoice::automatic;
  /// Queue what repeats of a micro-batch's work by one launch; nothing: where the host is slower than the GPU
  /// (rank::repeats_launches).
  std::optional<bool> cuda_graphs = {};
  bool matmul_autotune = false;   ///< time what cuBLASLt proposes for each product, before the first step
  double comm_timeout_s = 300.0;  ///< how long the ranks may stand still (comm/watch.hpp); 0: without end
  /// Thread blocks that NCCL may use for the collectives of an axis; 0: its own choice.
  int dp_replicate_max_ctas = 0, dp_shard_max_ctas = 0, ep_max_ctas = 0, sp_max_ctas = 0, tp_max_ctas = 0;
  double peak_tflops = 0.0;  ///< per rank; 0: unknown, no mfu

  /// Those limits by axis; 0 where there is no key.
  [[nodiscard]] AxisArray<int> max_ctas() const;
};

/// The keys of an axis: parallel.NAME_size and device.NAME_max_ctas.
struct AxisKeys {
  Axis axis;
  int Parallel::*size;
  int Device::*max_ctas;
  bool is_always_named = true;  ///< in texts: also where it has one rank
};
/// In the order of the axes. One without keys has size 1, and no text names it.
inline constexpr std::array axis_keys{
    AxisKeys{Axis::dp_replicate, &Parallel::dp_replicate_size, &Device::dp_replicate_max_ctas},
    AxisKeys{Axis::dp_shard, &Parallel::dp_shard_size, &Device::dp_shard_max_ctas},
    AxisKeys{Axis::ep, &Parallel::ep_size, &Device::ep_max_ctas, /*is_always_named=*/false},
    AxisKeys{Axis::sp, &Parallel::sp_size, &Device::sp_max_ctas},
    AxisKeys{Axis::tp, &Parallel::tp_size, &Device::tp_max_ctas}};

struct Config {
  Model model;
  Lora lora;
  Data data;
  Parallel parallel;
  Train train;
  Optimizer optimizer;
  Checkpoint checkpoint;
  Device device;

  /// per_device_train_batch_size * the ranks along data_axes * gradient_accumulation_steps, in rows.
  [[nodiscard]] std::int64_t effective_batch_rows() const;
  /// Whether a finished run leaves its model in hub format. One with LoRA leaves its adapters in any case.
  [[nodiscard]] bool leaves_model_folder() const {
    return checkpoint.save_hub_model != HubModel::never && !lora.use_peft;
  }
};

}  // namespace sft::config
