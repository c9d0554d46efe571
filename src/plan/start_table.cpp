// SPDX-License-Identifier: Apache-2.0
#include "sft/plan/start_table.hpp"

#include <fmt/core.h>

#include <array>
#include <cmath>
#include <filesystem>
#include <iomanip>
#include <set>
#include <span>
#include <sstream>

#include "sft/config/values.hpp"
#include "sft/core/format.hpp"
#include "sft/core/labelled_lines.hpp"
#include "sft/ops/factory.hpp"
#include "sft/optim/schedule.hpp"
#include "sft/plan/run_length.hpp"
#include "sft/plan/traffic.hpp"

namespace sft::plan {

namespace {

std::string describe_model(const StartFacts& facts) {
  const config::Model& model = facts.config->model;
  std::ostringstream text;
  text << format_count(static_cast<double>(facts.num_parameters.all))
       << " parameters: " << plural(model.num_hidden_layers, "layer") << ", hidden " << model.hidden_size << ", "
       << model.num_attention_heads << "/" << model.num_key_value_heads << " heads of " << model.head_dim << ", MLP "
       << model.intermediate_size << ", vocabulary " << model.vocab_size << (model.tie_word_embeddings ? ", tied" : "")
       << (model.attention_bias ? ", q/k/v biases" : "") << (model.attention_output_bias ? ", o bias" : "")
       << (model.mlp_bias ? ", MLP biases" : "") << (model.qk_norm ? ", q/k norms" : "");
  return text.str();
}

/// "2.4 M of 137 M parameters are trained: adapters of rank 16, alpha 32, dropout 0.05, on all-linear".
std::string describe_lora(const StartFacts& facts) {
  const config::Lora& lora = facts.config->lora;
  std::ostringstream text;
  text << format_count(static_cast<double>(facts.num_parameters.trainable)) << " of "
       << format_count(static_cast<double>(facts.num_parameters.all)) << " parameters are trained: adapters of rank "
       << lora.lora_r << ", alpha " << lora.lora_alpha << (lora.use_rslora ? " (rslora)" : "") << ", dropout "
       << lora.lora_dropout << ", on";
  for (const std::string& target : lora.lora_target_modules) text << " " << target;
  return text.str();
}

/// "4 ranks exchange heads (ulysses), 2 such groups in a ring", and why that was taken.
std::string describe_attention(const StartFacts& facts) {
  const config::Parallel& parallel = facts.config->parallel;
  if (parallel.sp_size == 1) return "";
  const sequence::AttentionMethod method = parallel.attention_method();
  std::string text = "a ring of " + plural(parallel.sp_size, "rank");
  if (method.keys == sequence::AttentionMethod::Keys::all_gather) {
    text = "keys and values gathered from " + plural(parallel.sp_size, "rank") + " (all_gather)";
  } else if (method.ulysses_size > 1) {
    text = plural(method.ulysses_size, "rank") + " exchange heads (ulysses)";
    const int ring_size = parallel.sp_size / method.ulysses_size;
    if (ring_size > 1) text += ", a ring of " + std::to_string(ring_size) + " such groups";
  }
  return facts.sp_choice.empty() ? text : text + "; " + facts.sp_choice;
}

/// Where bf16 gains no speed: a processor's best way to multiply such numbers may be to make float32 of them first.
std::string describe_bf16_products(const StartFacts& facts) {
  if (facts.kind != device::Kind::cpu || ops::cpu_multiplies_bf16()) return "";
  return " (this processor multiplies in float32: no faster than fp32)";
}

std::string describe_precision(const StartFacts& facts) {
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
      return "bf16 compute and gathering, float32 weights" +
             (has_small_moments ? " and gradient sums" + small_moments : std::string(", moments and gradient sums")) +
             describe_bf16_products(facts);
    case config::Precision::pure_bf16:
      break;
  }
  return "pure bf16: weights in bf16 alone, updated with stochastic rounding; float32 " +
         (has_small_moments ? "gradient sums" + small_moments : std::string("moments and gradient sums")) +
         describe_bf16_products(facts);
}

/// What is offloaded where; empty: nothing.
std::string describe_offload(const StartFacts& facts) {
  const config::Train& train = facts.config->train;
  const bool moves_all_weights = facts.kind == device::Kind::cuda && facts.config->parallel.zero_stage == 3;
  const auto parts_in = [&](config::Offload place) {
    const bool moments = train.offload_optimizer == place;
    const bool weights = train.offload_parameters == place;
    return std::string(moments ? "moments" : "") + (moments && weights ? " and " : "") +
           (weights ? moves_all_weights && place == config::Offload::host ? "weights" : "master weights" : "");
  };
  const std::string on_host = parts_in(config::Offload::host), in_files = parts_in(config::Offload::nvme);
  std::string text;
  if (!on_host.empty()) {
    const bool is_cpu = facts.kind == device::Kind::cpu;
    text = on_host + " in host memory" + (is_cpu ? ", which on a CPU is where they are anyway" : "");
  }
  if (!in_files.empty()) {
    text += (text.empty() ? "" : "; ") + in_files + " in files in " + train.offload_folder + ", " +
            format_bytes(facts.offloaded_bytes) + " of rank 0";
  }
  return text;
}

/// "optimizer state, gradients and parameters over 4 ranks (ZeRO stage 3), gathered for each pass"; empty where there
/// is one rank to share with.
std::string describe_sharding(const config::Parallel& parallel) {
  const int size = num_ranks(parallel.sizes(), fsdp_axes);
  if (size == 1) return "";
  const std::string stage = " (ZeRO stage " + std::to_string(parallel.zero_stage) + ")";
  const std::string over = " over " + plural(size, "rank") + stage;
  if (parallel.zero_stage == 0) return "none: all parameters on every rank" + stage;
  if (parallel.zero_stage == 1) return "optimizer state" + over + "; gradients and parameters are whole";
  if (parallel.zero_stage == 2) return "optimizer state and gradients" + over + "; parameters are whole";
  const std::string what = "optimizer state, gradients and parameters" + over;
  const std::string units = parallel.blocks_per_unit == 1 ? "by blocks"
                            : parallel.blocks_per_unit == 0
                                ? "by parts of blocks"
                                : "by " + std::to_string(parallel.blocks_per_unit) + " blocks";
  const std::string gathered = ", gathered " + units;
  switch (parallel.reshard_after_forward) {
    case config::Reshard::never:
      return what + gathered + " and kept for the backward pass";
    case config::Reshard::always:
      break;
    case config::Reshard::to_groups:
      return what + gathered + " and kept for the backward pass by " + plural(parallel.reshard_size, "neighbour") +
             " together";
  }
  return what + gathered + " for each pass";
}

/// Of documents: padding is not computed.
double tokens_per_step(const StartFacts& facts) {
  const data::PackedDataset& data = facts.datasets.train;
  const data::StepPositions positions = step_positions(facts.config, data.num_rows());
  const double steps_per_epoch = positions.rows_of_short_step() > 0
                                     ? static_cast<double>(positions.steps_per_epoch())
                                     : static_cast<double>(data.num_rows()) / static_cast<double>(positions.batch_rows);
  return static_cast<double>(data.num_tokens()) / steps_per_epoch;
}

/// "shuffled as in TRL, seed 42; the last step of an epoch has 5 rows"
std::string describe_order(const StartFacts& facts) {
  const config::Data& data = facts.config->data;
  const data::StepPositions positions = step_positions(facts.config, facts.datasets.train.num_rows());
  const bool is_trl = positions.kind == data::OrderKind::trl;
  std::string order = data.shuffle ? std::string(is_trl ? "shuffled as in TRL" : "shuffled by a rule of our own") +
                                         ", seed " + std::to_string(data.seed)
                                   : "of the files";
  if (!is_trl) return order + "; each step has a whole batch";
  const std::int64_t rows_left = positions.rows_of_short_step();
  if (rows_left == 0) return order;
  if (positions.steps_per_epoch() == 1) return order + "; every step has all " + plural(rows_left, "row");
  return order + "; the last step of an epoch has " + plural(rows_left, "row");
}

std::string describe_batch(const StartFacts& facts) {
  const config::Train& train = facts.config->train;
  const int data_size = num_ranks(facts.config->parallel.sizes(), data_axes);
  std::ostringstream text;
  text << facts.config->effective_batch_rows() << " rows = " << train.per_device_train_batch_size << " per rank x "
       << plural(data_size, "data rank") << " x " << train.gradient_accumulation_steps << " accumulated; "
       << format_count(tokens_per_step(facts)) << " tokens a step in the mean";
  return text.str();
}

std::string describe_steps(const StartFacts& facts) {
  const double num_epochs =
      epochs_after(facts.num_steps, step_positions(facts.config, facts.datasets.train.num_rows()));
  std::ostringstream text;
  text.precision(3);
  if (num_epochs >= 100) text << std::fixed << std::setprecision(0);
  text << facts.num_steps << " = " << num_epochs << " epochs";
  const config::Optimizer& optimizer = facts.config->optimizer;
  const bool is_written_as_steps =
      optimizer.warmup_ratio == 0 && optimizer.warmup_steps == std::trunc(optimizer.warmup_steps);
  if (!is_written_as_steps) {
    text << "; warm-up takes " << plural(optim::num_warmup_steps(optimizer, facts.num_steps), "step");
  }
  return text.str();
}

std::string describe_data(const data::PackedDataset& data) {
  const auto capacity = static_cast<double>(data.num_rows() * data.max_length());
  std::ostringstream text;
  text.precision(3);
  text << plural(static_cast<std::int64_t>(data.files().size()), "shard") << ", " << data.num_rows() << " rows of "
       << data.max_length() << ", " << data.num_documents() << " documents, "
       << format_count(static_cast<double>(data.num_tokens())) << " tokens ("
       << 100 * static_cast<double>(data.num_tokens()) / capacity << " % of the rows), "
       << format_count(static_cast<double>(data.num_target_tokens())) << " targets";
  return text.str();
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

/// "all but the input of each block is computed again (full); offloaded to files in /scratch; MLP in tiles of 4096
/// tokens; norms and what they read on 1/2 of the tokens (tp_sequence_parallel)"
std::string describe_activations(const config::Config& config, bool is_cpu) {
  using Checkpointing = config::ActivationCheckpointing;
  const config::Train& train = config.train;
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : "; ") + part; };
  if (train.activation_checkpointing == Checkpointing::selective) add("what is cheap is computed again (selective)");
  if (train.activation_checkpointing == Checkpointing::full) {
    add("all but the input of each block is computed again (full)");
  }
  if (train.activation_offload) {
    add(is_cpu ? "offloaded to files in " + train.offload_folder : "offloaded to host memory");
  }
  if (train.mlp_tile_tokens > 0) add("MLP in tiles of " + plural(train.mlp_tile_tokens, "token"));
  if (const int slices = config.parallel.token_slices(); slices > 1) {
    add("norms and what they read on 1/" + std::to_string(slices) + " of the tokens (tp_sequence_parallel)");
  }
  return text;
}

/// "at the start, every 100 steps and at the end"
std::string describe_evaluation(const config::Train& train) {
  const std::string steps = train.eval_interval() > 0 ? "every " + plural(train.eval_interval(), "step") : "";
  const std::string start = train.eval_on_start ? "at the start" : "";
  return start + (start.empty() || steps.empty() ? "" : ", ") + steps +
         (start.empty() && steps.empty() ? "at the end" : " and at the end");
}

/// "every 500 steps and at the end, 1.25 GiB each, beside training"
std::string describe_saves(const StartFacts& facts) {
  const config::Checkpoint& checkpoint = facts.config->checkpoint;
  const std::string bytes = format_bytes(facts.saved_bytes);
  if (!checkpoint.has_saves_between()) return fmt::format("at the end, {}", bytes);
  const std::string when =
      fmt::format("every {} and at the end, {} each", plural(checkpoint.save_steps, "step"), bytes);
  if (checkpoint.has_snapshot()) return when + ", beside training";
  const std::string why = facts.save_choice.empty() ? "" : fmt::format(" ({})", facts.save_choice);
  return fmt::format("{}; training waits for them{}", when, why);
}

}  // namespace

std::string describe_device(const device::Device& device) {
  const bool is_cpu = device.kind() == device::Kind::cpu;
  return device.description() + (is_cpu ? std::string(", ") + ops::cpu_instruction_set() : "");
}

std::vector<int> nodes_of_ranks(const comm::Session& session) {
  std::array<std::int64_t, 1> first_of_node{session.world().rank()};
  session.node().broadcast(std::span<std::int64_t>(first_of_node), 0);
  const std::vector<std::int64_t> nodes = session.world().all_gather(first_of_node);
  return std::vector<int>(nodes.begin(), nodes.end());
}

std::string describe_nodes(const mesh::Layout& layout, const std::vector<int>& node_of_rank) {
  const std::set<int> nodes(node_of_rank.begin(), node_of_rank.end());
  std::string text = plural(static_cast<std::int64_t>(nodes.size()), "node");
  const AxisSet crosses = layout.axes_between_nodes(node_of_rank);
  std::string axes;
  for (const Axis axis : all_axes) {
    if (crosses.contains(axis)) axes.append(axes.empty() ? "" : ", ").append(name_of(axis));
  }
  return axes.empty() ? text : text + "; between them: " + axes;
}

std::string start_table(const StartFacts& facts) {
  const mesh::Layout layout = mesh::layout_of(facts.config->parallel);
  LabelledLines lines;
  const auto add = [&](const char* label, const std::string& text) { lines.add(label, text); };
  add("mesh",
      layout.describe() + ", " + plural(layout.size(), "rank") + (facts.nodes.empty() ? "" : " on " + facts.nodes));
  add("attention", describe_attention(facts));
  add("device", facts.device);
  add("model", describe_model(facts));
  add("lora", facts.config->lora.use_peft ? describe_lora(facts) : "");
  add("precision", describe_precision(facts));
  add("activations", describe_activations(facts.config, facts.kind == device::Kind::cpu));
  add("offload", describe_offload(facts));
  add("weights", facts.origin);
  add("data", describe_data(facts.datasets.train));
  if (facts.datasets.eval) {
    add("eval data", describe_data(*facts.datasets.eval));
    add("evaluate", describe_evaluation(facts.config->train));
  }
  add("tokenizer", describe_tokenizer(facts));
  add("order", describe_order(facts));
  add("batch", describe_batch(facts));
  add("steps", describe_steps(facts));
  add("sharding", describe_sharding(facts.config->parallel));
  add("sends", layout.size() == 1 ? "" : describe_traffic(facts.traffic) + " per rank and step of full rows");
  if (const config::StepRange& steps = facts.config->train.profile_steps; !steps.is_empty()) {
    add("profile", (steps.first == steps.last ? "step " : "steps ") + config::write(steps) + ", in " +
                       facts.config->train.output_dir + "/trace.json");
  }
  add("saves", describe_saves(facts));
  add("output", facts.config->train.output_dir);
  return lines.text() + "\n" + format_memory(facts.memory);
}

}  // namespace sft::plan
