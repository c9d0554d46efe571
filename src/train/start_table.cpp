// SPDX-License-Identifier: Apache-2.0
#include "sft/train/start_table.hpp"

#include <array>
#include <set>
#include <span>
#include <sstream>

#include "sft/core/plural.hpp"
#include "sft/core/table.hpp"
#include "sft/ops/factory.hpp"
#include "sft/train/console.hpp"
#include "sft/train/run_length.hpp"

namespace sft::train {

namespace {

std::string describe_model(const StartFacts& facts) {
  const config::Model& model = facts.config.model;
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
  const config::Lora& lora = facts.config.lora;
  std::ostringstream text;
  text << format_count(static_cast<double>(facts.num_parameters.trainable)) << " of "
       << format_count(static_cast<double>(facts.num_parameters.all)) << " parameters are trained: adapters of rank "
       << lora.lora_r << ", alpha " << lora.lora_alpha << (lora.use_rslora ? " (rslora)" : "") << ", dropout "
       << lora.lora_dropout << ", on";
  for (const std::string& target : lora.lora_target_modules) text << " " << target;
  return text.str();
}

std::string describe_precision(const StartFacts& facts) {
  return facts.config.train.precision == config::Precision::bf16
             ? "bf16 compute and gathering, float32 weights, moments and gradient sums"
             : "float32";
}

/// Of documents: padding is not computed.
double tokens_per_step(const StartFacts& facts) {
  const data::PackedDataset& data = facts.datasets.train;
  return static_cast<double>(facts.config.effective_batch_rows()) * static_cast<double>(data.num_tokens()) /
         static_cast<double>(data.num_rows());
}

std::string describe_batch(const StartFacts& facts) {
  const config::Train& train = facts.config.train;
  const config::Parallel& sizes = facts.config.parallel;
  const int data_size = sizes.dp_replicate_size * sizes.dp_shard_size;
  std::ostringstream text;
  text << facts.config.effective_batch_rows() << " rows = " << train.per_device_train_batch_size << " per rank x "
       << plural(data_size, "data rank") << " x " << train.gradient_accumulation_steps << " accumulated; "
       << format_count(tokens_per_step(facts)) << " tokens a step in the mean";
  return text.str();
}

std::string describe_steps(const StartFacts& facts) {
  std::ostringstream text;
  text.precision(3);
  text << facts.num_steps << " = "
       << epochs_after(facts.num_steps, facts.config.effective_batch_rows(), facts.datasets.train.num_rows())
       << " epochs";
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
       << format_count(static_cast<double>(data.num_target_tokens())) << " targets, tokenizer " << data.tokenizer();
  return text.str();
}

/// "at the start, every 100 steps and at the end"
std::string describe_evaluation(const config::Train& train) {
  const std::string steps = train.eval_interval() > 0 ? "every " + plural(train.eval_interval(), "step") : "";
  const std::string start = train.eval_on_start ? "at the start" : "";
  return start + (start.empty() || steps.empty() ? "" : ", ") + steps +
         (start.empty() && steps.empty() ? "at the end" : " and at the end");
}

}  // namespace

std::string describe_device(const device::Device& device) {
  const bool is_cpu = device.kind() == device::Kind::cpu;
  return device.description() + (is_cpu ? std::string(", ") + ops::cpu_instruction_set() : "");
}

std::vector<int> nodes_of_ranks(const comm::Session& session) {
  std::array<std::int64_t, 1> first_of_node{session.world().rank()};
  session.node().broadcast(std::span<std::int64_t>(first_of_node), 0);
  std::vector<int> nodes;
  for (const std::string& text : session.world().all_gather(std::to_string(first_of_node[0]))) {
    nodes.push_back(std::stoi(text));
  }
  return nodes;
}

std::string describe_nodes(const mesh::Layout& layout, const std::vector<int>& node_of_rank) {
  const std::set<int> nodes(node_of_rank.begin(), node_of_rank.end());
  std::string text = plural(static_cast<std::int64_t>(nodes.size()), "node");
  const std::array<bool, 4> crosses = layout.axes_between_nodes(node_of_rank);
  std::string axes;
  for (std::size_t axis = 0; axis < crosses.size(); ++axis) {
    if (crosses[axis]) axes += (axes.empty() ? "" : ", ") + std::string(mesh::axis_names[axis]);
  }
  return axes.empty() ? text : text + "; between them: " + axes;
}

std::string start_table(const StartFacts& facts) {
  const mesh::Layout layout = mesh::layout_of(facts.config.parallel);
  Table table({Align::left, Align::left}, 2);
  const auto add = [&](const char* label, const std::string& text) {
    if (!text.empty()) table.add({label, text});
  };
  add("mesh",
      layout.describe() + ", " + plural(layout.size(), "rank") + (facts.nodes.empty() ? "" : " on " + facts.nodes));
  add("device", facts.device);
  add("model", describe_model(facts));
  add("lora", facts.config.lora.use_peft ? describe_lora(facts) : "");
  add("precision", describe_precision(facts));
  add("weights", facts.origin);
  add("data", describe_data(facts.datasets.train));
  if (facts.datasets.eval) {
    add("eval data", describe_data(*facts.datasets.eval));
    add("evaluate", describe_evaluation(facts.config.train));
  }
  add("batch", describe_batch(facts));
  add("steps", describe_steps(facts));
  add("output", facts.config.train.output_dir);
  return table.text() + "\n" + format_memory(facts.memory);
}

}  // namespace sft::train
