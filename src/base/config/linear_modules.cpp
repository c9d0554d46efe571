// SPDX-License-Identifier: Apache-2.0
#include "sft/config/linear_modules.hpp"

#include <fmt/core.h>

#include <utility>

namespace sft::config {

namespace {

/// Weights of the matrices of all blocks, or of so many experts of each layer, and their router.
std::int64_t num_block_matrix_parameters(const Model& model, std::int64_t experts_of_layer) {
  const std::int64_t of_experts =
      model.hidden_size * (3 * experts_of_layer * model.moe_intermediate_size + model.num_experts);
  std::int64_t sum = model.num_expert_layers() * of_experts;
  for (std::size_t layer = 0; std::cmp_less(layer, model.num_hidden_layers); ++layer) {
    for (const LinearModule& module : linear_modules(model, layer)) sum += module.rows * module.columns;
  }
  return sum;
}

}  // namespace

std::string LinearModule::path(std::size_t layer) const {
  return fmt::format("model.layers.{}.{}.{}", layer, parent, name);
}

std::vector<LinearModule> linear_modules(const Model& m, std::size_t layer) {
  const std::int64_t hidden = m.hidden_size, queries = m.num_attention_heads * m.head_dim;
  const std::int64_t keys = m.num_key_value_heads * m.head_dim;
  std::vector<LinearModule> modules = {{"self_attn", "q_proj", queries, hidden, false},
                                       {"self_attn", "k_proj", keys, hidden, true},
                                       {"self_attn", "v_proj", keys, hidden, true},
                                       {"self_attn", "o_proj", hidden, queries, false}};
  const bool has_experts = m.has_experts(layer);
  if (has_experts && m.n_shared_experts == 0) return modules;
  const char* const mlp = has_experts ? "mlp.shared_experts" : "mlp";
  const std::int64_t width = has_experts ? m.shared_intermediate_size() : m.intermediate_size;
  modules.insert(modules.end(), {{mlp, "gate_proj", width, hidden, false},
                                 {mlp, "up_proj", width, hidden, true},
                                 {mlp, "down_proj", hidden, width, false}});
  return modules;
}

std::vector<std::vector<std::string>> linear_module_groups(const Model& model) {
  std::vector<std::vector<std::string>> groups;
  for (std::size_t layer = 0; layer < static_cast<std::size_t>(model.num_hidden_layers); ++layer) {
    for (const LinearModule& module : linear_modules(model, layer)) {
      if (!module.joins_previous) groups.emplace_back();
      groups.back().push_back(module.path(layer));
    }
  }
  return groups;
}

const std::vector<std::string>& linear_layer_names() {
  static const std::vector<std::string> names = {"q_proj",    "k_proj",  "v_proj",   "o_proj",
                                                 "gate_proj", "up_proj", "down_proj"};
  return names;
}

std::int64_t Model::num_parameters() const {
  std::int64_t block = 0;  // but matrices
  if (attention_bias) block += (num_attention_heads + 2 * num_key_value_heads) * head_dim;
  if (attention_output_bias) block += hidden_size;
  if (mlp_bias) block += 2 * intermediate_size + hidden_size;
  if (qk_norm) block += (qk_norm_all_heads ? num_attention_heads + num_key_value_heads : 2) * head_dim;
  if (attention_sinks) block += num_attention_heads;
  block += ((norms_inputs() ? 2 : 0) + (norms_branches() ? 2 : 0)) * hidden_size;
  const std::int64_t table = vocab_size * hidden_size;
  const std::int64_t corrections = scoring_func == ScoringFunc::sigmoid ? num_expert_layers() * num_experts : 0;
  const std::int64_t of_expert = 2 * moe_intermediate_size + hidden_size + 1;  // biases, one of them the router's
  const std::int64_t expert_biases =
      expert_form == ExpertForm::gpt_oss ? num_expert_layers() * num_experts * of_expert : 0;
  return num_block_matrix_parameters(*this, num_experts) + expert_biases + corrections + num_hidden_layers * block +
         hidden_size + (tie_word_embeddings ? 1 : 2) * table;
}

std::int64_t Model::num_matmul_parameters() const {
  return num_block_matrix_parameters(*this, num_experts_per_tok) + vocab_size * hidden_size;
}

}  // namespace sft::config
