// SPDX-License-Identifier: Apache-2.0
#include "sft/config/config.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "sft/core/ensure.hpp"

namespace sft::config {

namespace {

/// Weights of the matrices of all blocks: q, k, v, o and the three of the MLP, or of so many experts, the MLP beside
/// them and their router.
std::int64_t num_block_matrix_parameters(const Model& model, std::int64_t experts_of_layer) {
  const std::int64_t query_columns = model.num_attention_heads * model.head_dim;
  const std::int64_t key_value_columns = model.num_key_value_heads * model.head_dim;
  const std::int64_t attention_columns = 2 * query_columns + 2 * key_value_columns;
  const std::int64_t expert_columns =
      3 * (experts_of_layer * model.moe_intermediate_size + model.shared_intermediate_size()) + model.num_experts;
  const std::int64_t num_of_experts = model.num_expert_layers();
  return model.hidden_size *
         (model.num_hidden_layers * attention_columns +
          (model.num_hidden_layers - num_of_experts) * 3 * model.intermediate_size + num_of_experts * expert_columns);
}

}  // namespace

std::int64_t Model::num_expert_layers() const {
  std::int64_t count = 0;
  for (std::size_t layer = 0; std::cmp_less(layer, num_hidden_layers); ++layer) count += has_experts(layer) ? 1 : 0;
  return count;
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

sequence::AttentionMethod Parallel::attention_method() const {
  using Keys = sequence::AttentionMethod::Keys;
  switch (sp_method) {
    case SpMethod::ring:
      return {Keys::ring, 1};
    case SpMethod::all_gather:
      return {Keys::all_gather, 1};
    case SpMethod::ulysses:
      return {Keys::ring, sp_size};
    case SpMethod::hybrid:
      SFT_ENSURE(ulysses_size > 0, "ulysses_size = auto is resolved");
      return {Keys::ring, ulysses_size};
    case SpMethod::automatic:
      break;
  }
  SFT_ENSURE(false, "sp_method = auto is resolved");
  return {};
}

AxisArray<int> Parallel::sizes() const {
  AxisArray<int> sizes(1, {});
  for (const AxisKeys& keys : axis_keys) sizes[keys.axis] = this->*keys.size;
  return sizes;
}

AxisArray<int> Device::max_ctas() const {
  AxisArray<int> limits;
  for (const AxisKeys& keys : axis_keys) limits[keys.axis] = this->*keys.max_ctas;
  return limits;
}

std::int64_t Config::effective_batch_rows() const {
  return train.per_device_train_batch_size * num_ranks(parallel.sizes(), data_axes) * train.gradient_accumulation_steps;
}

}  // namespace sft::config
