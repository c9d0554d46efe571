// SPDX-License-Identifier: Apache-2.0
#include "sft/rank/start_table.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <utility>
#include <vector>

#include "sft/config/values.hpp"
#include "sft/core/format.hpp"
#include "sft/core/labelled_lines.hpp"
#include "sft/mesh/layout.hpp"
#include "sft/model/layer_plan.hpp"
#include "sft/ops/factory.hpp"
#include "sft/optim/schedule.hpp"
#include "sft/rank/run_length.hpp"
#include "sft/rows/planned_rows.hpp"

namespace sft::rank {

namespace {

std::string describe_model(const StartFacts& facts) {
  const config::Model& model = facts.config->model;
  std::string text = fmt::format("{} parameters: {}, hidden {}, {}/{} heads of {}, MLP {}, vocabulary {}",
                                 format_count(static_cast<double>(facts.num_parameters.all)),
                                 plural(model.num_hidden_layers, "layer"), model.hidden_size, model.num_attention_heads,
                                 model.num_key_value_heads, model.head_dim, model.intermediate_size, model.vocab_size);
  if (model.tie_word_embeddings) text += ", tied";
  if (model.attention_bias) text += ", q/k/v biases";
  if (model.attention_output_bias) text += ", o bias";
  if (model.mlp_bias) text += ", MLP biases";
  if (model.qk_norm) text += ", q/k norms";
  if (model.attention_sinks) text += ", attention sinks";
  if (const sequence::AttentionWindows windows = model::attention_windows(model); model.sliding_window > 0) {
    text += fmt::format(", windows of {} on {}", plural(model.sliding_window, "token"),
                        windows.size() == 1 ? "all layers" : "some layers");
  }
  if (const auto plain = std::ranges::count(model.no_rope_layers, 0); plain > 0) {
    text += fmt::format(", {} without rotation", plural(plain, "layer"));
  }
  return text;
}

/// "2.4 M of 137 M parameters are trained: adapters of rank 16, alpha 32, dropout 0.05, on all-linear".
std::string describe_lora(const StartFacts& facts) {
  const config::Lora& lora = facts.config->lora;
  std::string rest;
  if (lora.adapts_experts()) rest += fmt::format(" and experts' {}", fmt::join(lora.lora_target_parameters, " "));
  if (lora.use_dora) rest += "; with magnitudes (DoRA)";
  if (!lora.rank_pattern.empty()) rest += "; ranks by rank_pattern";
  if (!lora.alpha_pattern.empty()) rest += "; alphas by alpha_pattern";
  if (!lora.layers_to_transform.empty())
    rest += fmt::format("; in blocks {}", fmt::join(lora.layers_to_transform, " "));
  if (!lora.modules_to_save.empty()) rest += fmt::format("; whole modules {}", fmt::join(lora.modules_to_save, " "));
  if (lora.loraplus_lr_ratio != 1.0) rest += fmt::format("; rate of B x {:g}", lora.loraplus_lr_ratio);
  if (lora.load_in_4bit) {
    rest += fmt::format(
        "; frozen matrices in 4 bits ({}{}{})", lora.bnb_4bit_quant_type == FourBitType::nf4 ? "nf4" : "fp4",
        lora.use_bnb_nested_quant ? ", nested scales" : "", lora.quantize_moe_experts ? ", experts too" : "");
  }
  return fmt::format("{} of {} parameters are trained: adapters of rank {}, alpha {:g}{}, dropout {:g}, on {}{}",
                     format_count(static_cast<double>(facts.num_parameters.trainable)),
                     format_count(static_cast<double>(facts.num_parameters.all)), lora.lora_r, lora.lora_alpha,
                     lora.use_rslora ? " (rslora)" : "", lora.lora_dropout, fmt::join(lora.lora_target_modules, " "),
                     rest);
}

/// "4 ranks exchange heads (ulysses), 2 such groups in a ring", and why that was taken.
std::string describe_attention(const StartFacts& facts) {
  const config::Parallel& parallel = facts.config->parallel;
  if (parallel.sp_size == 1) return "";
  const sequence::AttentionMethod method = parallel.attention_method();
  std::string text = fmt::format("a ring of {}", plural(parallel.sp_size, "rank"));
  if (method.keys == sequence::AttentionMethod::Keys::all_gather) {
    text = fmt::format("keys and values gathered from {} (all_gather)", plural(parallel.sp_size, "rank"));
  } else if (method.ulysses_size > 1) {
    text = fmt::format("{} exchange heads (ulysses)", plural(method.ulysses_size, "rank"));
    const int ring_size = parallel.sp_size / method.ulysses_size;
    if (ring_size > 1) text += fmt::format(", a ring of {} such groups", ring_size);
  }
  return facts.sp_choice.empty() ? text : fmt::format("{}; {}", text, facts.sp_choice);
}

/// Where bf16 gains no speed: a processor's best way to multiply such numbers may be to make float32 of them first.
std::string describe_bf16_products(const StartFacts& facts) {
  if (facts.kind != device::Kind::cpu || ops::cpu_multiplies_bf16()) return "";
  return " (this processor multiplies in float32: no faster than fp32)";
}

/// Empty: they are computed as all else.
std::string describe_fp8(const config::Train& train) {
  if (train.fp8 == config::Fp8::none) return "";
  const char* const scales = train.fp8 == config::Fp8::blockwise
                                 ? "a scale for 128 neighbours, of weights for 128 x 128"
                                 : "a scale for each operand on a rank";
  return fmt::format("; linear layers of blocks in fp8 {} (E4M3, gradients E5M2; {}), float32 sums",
                     config::write(train.fp8), scales);
}

std::string describe_storage_and_sums(const StartFacts& facts) {
  const config::Config& config = facts.config;
  const bool has_codes = config.optimizer.optim == config::OptimizerKind::adamw_8bit;
  const bool has_small_moments = has_codes || config.optimizer.moments_dtype == DType::bf16;
  const std::string small_moments = has_codes           ? ", moments in 8 bits"
                                    : has_small_moments ? ", bf16 moments with stochastic rounding"
                                                        : "";
  switch (config.train.precision) {
    case config::Precision::fp32:
      return "float32" + small_moments;
    case config::Precision::bf16:
      return fmt::format("bf16 compute and gathering, float32 weights{} gradient sums{}{}",
                         has_small_moments ? " and" : ", moments and", small_moments, describe_bf16_products(facts));
    case config::Precision::pure_bf16:
      break;
  }
  return fmt::format("pure bf16: weights in bf16 alone, updated with stochastic rounding; float32 {}gradient sums{}{}",
                     has_small_moments ? "" : "moments and ", small_moments, describe_bf16_products(facts));
}

std::string describe_precision(const StartFacts& facts) {
  return describe_storage_and_sums(facts) + describe_fp8(facts.config->train);
}

/// What is offloaded where; empty: nothing.
std::string describe_offload(const StartFacts& facts) {
  const config::Train& train = facts.config->train;
  const bool moves_all_weights = facts.kind == device::Kind::cuda && facts.config->parallel.zero_stage == 3;
  const auto parts_in = [&](config::Offload place) {
    const bool moments = train.offload_optimizer == place;
    const bool weights = train.offload_parameters == place;
    std::vector<const char*> parts;
    if (moments) parts.push_back("moments");
    if (weights) parts.push_back(moves_all_weights && place == config::Offload::host ? "weights" : "master weights");
    return fmt::format("{}", fmt::join(parts, " and "));
  };
  const std::string on_host = parts_in(config::Offload::host), in_files = parts_in(config::Offload::nvme);
  std::string text;
  if (!on_host.empty()) {
    const bool is_cpu = facts.kind == device::Kind::cpu;
    text = fmt::format("{} in host memory{}", on_host, is_cpu ? ", which on a CPU is where they are anyway" : "");
  }
  if (!in_files.empty()) {
    text += fmt::format("{}{} in files in {}, {} of rank 0", text.empty() ? "" : "; ", in_files, train.offload_folder,
                        format_bytes(facts.offloaded_bytes));
  }
  return text;
}

/// "optimizer state, gradients and parameters over 4 ranks (ZeRO stage 3), gathered for each pass"; empty where there
/// is one rank to share with.
std::string describe_sharding(const config::Parallel& parallel) {
  const int size = num_ranks(parallel.sizes(), fsdp_axes);
  if (size == 1) return "";
  if (parallel.zero_stage == 0) return "none: all parameters on every rank (ZeRO stage 0)";
  const std::string over = fmt::format("over {} (ZeRO stage {})", plural(size, "rank"), parallel.zero_stage);
  if (parallel.zero_stage == 1) return fmt::format("optimizer state {}; gradients and parameters are whole", over);
  if (parallel.zero_stage == 2) return fmt::format("optimizer state and gradients {}; parameters are whole", over);
  const std::string units = parallel.blocks_per_unit == 1   ? "by blocks"
                            : parallel.blocks_per_unit == 0 ? "by parts of blocks"
                                                            : fmt::format("by {} blocks", parallel.blocks_per_unit);
  const std::string gathered = fmt::format("optimizer state, gradients and parameters {}, gathered {}", over, units);
  switch (parallel.reshard_after_forward) {
    case config::Reshard::never:
      return fmt::format("{} and kept for the backward pass", gathered);
    case config::Reshard::always:
      break;
    case config::Reshard::to_groups:
      return fmt::format("{} and kept for the backward pass by {} together", gathered,
                         plural(parallel.reshard_size, "neighbour"));
  }
  return fmt::format("{} for each pass", gathered);
}

/// Of documents: padding is not computed.
double tokens_per_step(const StartFacts& facts) {
  const rows::PackedDataset& data = facts.datasets.train;
  const rows::StepPositions positions = step_positions(facts.config, data.num_rows());
  const double steps_per_epoch = positions.rows_of_short_step() > 0
                                     ? static_cast<double>(positions.steps_per_epoch())
                                     : static_cast<double>(data.num_rows()) / static_cast<double>(positions.batch_rows);
  return static_cast<double>(data.num_tokens()) / steps_per_epoch;
}

/// "shuffled as in TRL, seed 42; the last step of an epoch has 5 rows"
std::string describe_order(const StartFacts& facts) {
  const config::Data& data = facts.config->data;
  const rows::StepPositions positions = step_positions(facts.config, facts.datasets.train.num_rows());
  const bool is_trl = positions.kind == rows::OrderKind::trl;
  std::string order =
      data.shuffle
          ? fmt::format("{}, seed {}", is_trl ? "shuffled as in TRL" : "shuffled by a rule of our own", data.seed)
          : "of the files";
  if (!is_trl) return fmt::format("{}; each step has a whole batch", order);
  const std::int64_t rows_left = positions.rows_of_short_step();
  if (rows_left == 0) return order;
  if (positions.steps_per_epoch() == 1)
    return fmt::format("{}; every step has all {}", order, plural(rows_left, "row"));
  return fmt::format("{}; the last step of an epoch has {}", order, plural(rows_left, "row"));
}

std::string describe_batch(const StartFacts& facts) {
  const config::Train& train = facts.config->train;
  const int data_size = num_ranks(facts.config->parallel.sizes(), data_axes);
  return fmt::format("{} rows = {} per rank x {} x {} accumulated; {} tokens a step in the mean",
                     facts.config->effective_batch_rows(), train.per_device_train_batch_size,
                     plural(data_size, "data rank"), train.gradient_accumulation_steps,
                     format_count(tokens_per_step(facts)));
}

std::string describe_steps(const StartFacts& facts) {
  const double num_epochs = epochs_after(
      facts.num_steps, step_positions(facts.config, facts.datasets.train.num_rows(), facts.datasets.origin));
  std::string text = num_epochs >= 100 ? fmt::format("{} = {:.0f} epochs", facts.num_steps, num_epochs)
                                       : fmt::format("{} = {:.3g} epochs", facts.num_steps, num_epochs);
  const config::Optimizer& optimizer = facts.config->optimizer;
  const bool is_written_as_steps =
      optimizer.warmup_ratio == 0 && optimizer.warmup_steps == std::trunc(optimizer.warmup_steps);
  if (!is_written_as_steps) {
    text += fmt::format("; warm-up takes {}", plural(optim::num_warmup_steps(optimizer, facts.num_steps), "step"));
  }
  return text;
}

std::string describe_data(const rows::PackedDataset& data) {
  if (rows::is_planned(data)) {
    return fmt::format("none yet: planned for {} full rows of {}, each one document", data.num_rows(),
                       plural(data.max_length(), "token"));
  }
  const auto capacity = static_cast<double>(data.num_rows() * data.max_length());
  return fmt::format("{}, {} rows of {}, {} documents, {} tokens ({:.3g} % of the rows), {} targets",
                     plural(std::ssize(data.files()), "shard"), data.num_rows(), data.max_length(),
                     data.num_documents(), format_count(static_cast<double>(data.num_tokens())),
                     100 * static_cast<double>(data.num_tokens()) / capacity,
                     format_count(static_cast<double>(data.num_target_tokens())));
}

/// "of the model", where its folder has made the tokens: the line of the weights names it.
std::string describe_tokenizer(const StartFacts& facts) {
  const std::string& tokenizer = facts.datasets.train.tokenizer();
  const auto is_same_folder = [&](const std::string& folder) {
    std::error_code error;
    return !folder.empty() && std::filesystem::equivalent(tokenizer, folder, error) && !error;
  };
  return is_same_folder(facts.origin) || is_same_folder(facts.config->model.model_name_or_path) ? "of the model"
                                                                                                : tokenizer;
}

/// "all but the input of each block is computed again (full); offloaded to files in /scratch, 4.0 MiB of rank 0; MLP in
/// tiles of 4096 tokens; norms and what they read on 1/2 of the tokens (tp_sequence_parallel)"
std::string describe_activations(const config::Config& config, bool is_cpu, std::uint64_t file_bytes) {
  using Checkpointing = config::ActivationCheckpointing;
  const config::Train& train = config.train;
  std::vector<std::string> parts;
  const auto add = [&](std::string part) { parts.push_back(std::move(part)); };
  if (train.activation_checkpointing == Checkpointing::selective) add("what is cheap is computed again (selective)");
  if (train.activation_checkpointing == Checkpointing::full) {
    add("all but the input of each block is computed again (full)");
  }
  if (train.activation_offload) {
    const bool goes_to_files = is_cpu || train.activation_offload_to == config::ActivationPlace::nvme;
    add(goes_to_files
            ? fmt::format("offloaded to files in {}, {} of rank 0", train.offload_folder, format_bytes(file_bytes))
            : "offloaded to host memory");
  }
  if (const std::int64_t tile_tokens = train.mlp_tile_tokens.value_or(0); tile_tokens > 0) {
    const config::Model& model = config.model;
    const std::string tiles = fmt::format("MLP in tiles of {}", plural(tile_tokens, "token"));
    if (model.num_experts == 0) {
      add(tiles);
    } else if (model.has_dense_layers() || model.n_shared_experts > 0) {
      add(tiles + ", but for experts");
    } else {
      add("mlp_tile_tokens without effect, as all MLPs are experts");
    }
  }
  if (const std::int64_t groups = train.attention_head_groups.value_or(1); groups > 1) {
    add(fmt::format("attention in {} groups of heads", groups));
  }
  if (const int slices = config.parallel.token_slices(); slices > 1) {
    add(fmt::format("norms and what they read on 1/{} of the tokens (tp_sequence_parallel)", slices));
  }
  return fmt::format("{}", fmt::join(parts, "; "));
}

/// "at the start, every 100 steps and at the end"
std::string describe_evaluation(const config::Train& train) {
  using Strategy = config::EvalStrategy;
  const std::string start = train.eval_on_start ? "at the start" : "";
  if (train.eval_strategy == Strategy::no) return start.empty() ? "never (eval_strategy = no)" : start;
  std::string steps = train.eval_strategy == Strategy::epoch ? "at the end of every epoch"
                      : train.eval_interval() > 0 ? fmt::format("every {}", plural(train.eval_interval(), "step"))
                                                  : "";
  const char* const unit = train.eval_strategy == Strategy::epoch ? "epoch" : "step";
  if (train.eval_delay > 0 && !steps.empty()) steps += fmt::format(" from {} {} on", unit, train.eval_delay);
  return fmt::format("{}{}{}{}", start, start.empty() || steps.empty() ? "" : ", ", steps,
                     start.empty() && steps.empty() ? "at the end" : " and at the end");
}

/// "lowest eval_loss, loaded at the end; stops after 3 evaluations without improvement"; empty where nothing goes by
/// it.
std::string describe_best(const config::Config& config) {
  const config::Train& train = config.train;
  if (!train.metric_for_best_model) return "";
  std::string text = fmt::format("{} eval_{}", *train.greater_is_better ? "highest" : "lowest",
                                 config::write(*train.metric_for_best_model));
  if (train.load_best_model_at_end) text += ", loaded at the end";
  if (train.early_stopping_patience > 0) {
    text += fmt::format("; stops after {} without improvement", plural(train.early_stopping_patience, "evaluation"));
  }
  return text;
}

/// "every 500 steps and at the end"
std::string describe_save_times(const config::Checkpoint& checkpoint) {
  using Strategy = config::SaveStrategy;
  if (!checkpoint.has_saves_between()) return "at the end";
  switch (checkpoint.save_strategy) {
    case Strategy::epoch:
      return "at the end of every epoch and of the run";
    case Strategy::best:
      return "when an evaluation is the best so far, and at the end";
    default:
      return fmt::format("every {} and at the end", plural(checkpoint.save_steps, "step"));
  }
}

/// "every 500 steps and at the end, beside training; 1.25 GiB, 320 MiB of a rank: ..."
std::string describe_saves(const StartFacts& facts) {
  const config::Checkpoint& checkpoint = facts.config->checkpoint;
  const std::string times = describe_save_times(checkpoint);
  if (!checkpoint.has_saves_between()) return fmt::format("{}; {}", times, facts.save);
  if (checkpoint.has_snapshot()) return fmt::format("{}, beside training; {}", times, facts.save);
  const std::string why = facts.save_choice.empty() ? "" : fmt::format(" ({})", facts.save_choice);
  return fmt::format("{}; training waits for them{}; {}", times, why, facts.save);
}

}  // namespace

std::string start_table(const StartFacts& facts) {
  const mesh::Layout layout = mesh::layout_of(facts.config->parallel);
  LabelledLines lines;
  const auto add = [&](const char* label, const std::string& text) { lines.add(label, text); };
  add("mesh", fmt::format("{}, {}{}", layout.describe(), plural(layout.size(), "rank"),
                          facts.nodes.empty() ? "" : fmt::format(" on {}", facts.nodes)));
  add("attention", describe_attention(facts));
  add("device", facts.device);
  add("launches", facts.repeats_launches ? "chains of kernels that come again by one call (CUDA graphs)" : "");
  add("model", describe_model(facts));
  add("lora", facts.config->lora.use_peft ? describe_lora(facts) : "");
  add("precision", describe_precision(facts));
  add("activations", describe_activations(facts.config, facts.kind == device::Kind::cpu, facts.activation_file_bytes));
  add("offload", describe_offload(facts));
  add("weights", facts.origin);
  add("data", describe_data(facts.datasets.train));
  if (facts.datasets.eval) {
    add("eval data", describe_data(*facts.datasets.eval));
    add("evaluate", describe_evaluation(facts.config->train));
    add("best model", describe_best(facts.config));
  }
  add("tokenizer", describe_tokenizer(facts));
  add("order", describe_order(facts));
  add("batch", describe_batch(facts));
  add("steps", describe_steps(facts));
  add("sharding", describe_sharding(facts.config->parallel));
  add("sends",
      layout.size() == 1 ? "" : fmt::format("{} per rank and step of full rows", describe_traffic(facts.traffic)));
  add("time", facts.step_time);
  add("ops", facts.ops);
  add("run", facts.duration);
  if (const config::StepRange& steps = facts.config->train.profile_steps; !steps.is_empty()) {
    add("profile", fmt::format("{} {}, in {}/trace.json", steps.first == steps.last ? "step" : "steps",
                               config::write(steps), facts.config->train.output_dir));
  }
  add("saves", describe_saves(facts));
  add("output", facts.config->train.output_dir);
  LabelledLines last;
  last.add("fits     ", facts.verdict);  // in the column of the others
  const std::string verdict = facts.verdict.empty() ? "" : "\n" + last.text();
  return fmt::format("{}\n{}{}", lines.text(), format_memory(facts.memory), verdict);
}

std::string describe_traffic(const std::vector<comm::SentBytes>& sent) {
  std::vector<std::string> groups;
  for (const comm::SentBytes& group : sent) {
    groups.push_back(fmt::format("{} {}", group.group, format_bytes(group.bytes)));
  }
  return groups.empty() ? "nothing" : fmt::format("{}", fmt::join(groups, ", "));
}

std::string warning_of_mesh(const config::Parallel& parallel) {
  constexpr int most_ranks = 1024;  // a ring of so many hops takes longer than the bytes of a unit
  const int num_sharing = parallel.zero_stage == 0 ? 1 : num_ranks(parallel.sizes(), fsdp_axes);
  if (num_sharing <= most_ranks) return "";
  int copies = 2;
  while (copies < parallel.dp_shard_size &&
         (parallel.dp_shard_size % copies != 0 || num_sharing / copies > most_ranks)) {
    ++copies;
  }
  return fmt::format(
      "{} ranks share each unit (dp_shard x sp; gathers and reductions go round a ring of them, which above {} takes "
      "longer than what is sent): set dp_replicate_size = {} and dp_shard_size = {}",
      num_sharing, most_ranks, parallel.dp_replicate_size * copies, parallel.dp_shard_size / copies);
}

}  // namespace sft::rank
