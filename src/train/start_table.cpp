#include "sft/train/start_table.hpp"

#include <array>
#include <sstream>

#include "sft/core/table.hpp"
#include "sft/ops/factory.hpp"
#include "sft/train/console.hpp"
#include "sft/train/run_length.hpp"

namespace sft::train {

namespace {

std::string plural(std::int64_t count, const std::string& noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

std::string describe_ranks(const Run& run) {
  std::array<std::int64_t, 1> num_nodes{run.session.node().rank() == 0 ? 1 : 0};
  run.groups.world.sum(std::span<std::int64_t>(num_nodes));
  return plural(run.groups.world.size(), "rank") + " on " + plural(num_nodes[0], "node");
}

std::string describe_model(const Run& run) {
  const config::Model& model = run.config.model;
  std::ostringstream text;
  text << format_count(static_cast<double>(run.engine.shard_map().num_parameters()))
       << " parameters: " << plural(model.num_hidden_layers, "layer") << ", hidden " << model.hidden_size << ", "
       << model.num_attention_heads << "/" << model.num_key_value_heads << " heads of " << model.head_dim << ", MLP "
       << model.intermediate_size << ", vocabulary " << model.vocab_size << (model.tie_word_embeddings ? ", tied" : "")
       << (model.attention_bias ? ", q/k/v biases" : "") << (model.qk_norm ? ", q/k norms" : "");
  return text.str();
}

std::string describe_precision(const Run& run) {
  return run.config.train.precision == config::Precision::bf16
             ? "bf16 compute and gathering, float32 weights, moments and gradient sums"
             : "float32";
}

std::string describe_batch(const Run& run) {
  const config::Train& train = run.config.train;
  std::ostringstream text;
  text << run.config.effective_batch_rows() << " rows = " << train.per_device_train_batch_size << " a rank x "
       << plural(run.place.data_size(), "data rank") << " x " << train.gradient_accumulation_steps << " accumulated; "
       << run.config.effective_batch_rows() * run.dataset.max_length() << " tokens a step";
  return text.str();
}

std::string describe_steps(const Run& run, std::int64_t num_steps) {
  std::ostringstream text;
  text.precision(3);
  text << num_steps << " = " << epochs_after(num_steps, run.config.effective_batch_rows(), run.dataset.num_rows())
       << " epochs";
  return text.str();
}

std::string describe_data(const Run& run) {
  const data::PackedDataset& data = run.dataset;
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

std::string describe_device(const device::Device& device) {
  const bool is_cpu = device.kind() == device::Kind::cpu;
  return device.description() + (is_cpu ? std::string(", ") + ops::cpu_instruction_set() : "");
}

}  // namespace

std::string start_table(const Run& run, std::int64_t num_steps, const std::string& origin) {
  Table table({Align::left, Align::left}, 2);
  table.add({"mesh", run.place.layout().describe() + ", " + describe_ranks(run)});
  table.add({"device", describe_device(run.device)});
  table.add({"model", describe_model(run)});
  table.add({"precision", describe_precision(run)});
  table.add({"weights", origin});
  table.add({"data", describe_data(run)});
  table.add({"batch", describe_batch(run)});
  table.add({"steps", describe_steps(run, num_steps)});
  table.add({"output", run.config.train.output_dir});
  return table.text() + "\n" + format_ledger(run.ledger, run.groups.world);
}

}  // namespace sft::train
