#include "sft/model/architecture.hpp"

#include <string>
#include <utility>

namespace sft::model {

namespace {

using parallel::Init;
using parallel::Parameter;
using parallel::TpSplit;
using parallel::Unit;

void add_matrix(Unit& unit, std::string name, std::int64_t rows, std::int64_t columns, TpSplit split) {
  Parameter p;
  p.name = std::move(name);
  p.rows = rows;
  p.columns = columns;
  p.split = split;
  unit.parameters.push_back(std::move(p));
}

void add_vector(Unit& unit, std::string name, std::int64_t size, TpSplit split, Init init) {
  add_matrix(unit, std::move(name), size, 0, split);
  unit.parameters.back().init = init;
}

Unit make_block(const config::Model& m, std::int64_t layer) {
  const std::string prefix = "model.layers." + std::to_string(layer) + ".";
  const std::string attention = prefix + "self_attn.";
  const std::int64_t q_rows = m.num_attention_heads * m.head_dim;
  const std::int64_t kv_rows = m.num_key_value_heads * m.head_dim;
  Unit unit;
  unit.name = "model.layers." + std::to_string(layer);
  add_matrix(unit, attention + "q_proj.weight", q_rows, m.hidden_size, TpSplit::rows);
  add_matrix(unit, attention + "k_proj.weight", kv_rows, m.hidden_size, TpSplit::kv_rows);
  add_matrix(unit, attention + "v_proj.weight", kv_rows, m.hidden_size, TpSplit::kv_rows);
  add_matrix(unit, attention + "o_proj.weight", m.hidden_size, q_rows, TpSplit::columns);
  add_matrix(unit, prefix + "mlp.gate_proj.weight", m.intermediate_size, m.hidden_size, TpSplit::rows);
  add_matrix(unit, prefix + "mlp.up_proj.weight", m.intermediate_size, m.hidden_size, TpSplit::rows);
  add_matrix(unit, prefix + "mlp.down_proj.weight", m.hidden_size, m.intermediate_size, TpSplit::columns);
  if (m.attention_bias) {
    add_vector(unit, attention + "q_proj.bias", q_rows, TpSplit::rows, Init::zeros);
    add_vector(unit, attention + "k_proj.bias", kv_rows, TpSplit::kv_rows, Init::zeros);
    add_vector(unit, attention + "v_proj.bias", kv_rows, TpSplit::kv_rows, Init::zeros);
  }
  if (m.qk_norm) {
    add_vector(unit, attention + "q_norm.weight", m.head_dim, TpSplit::partial, Init::ones);
    add_vector(unit, attention + "k_norm.weight", m.head_dim, TpSplit::partial, Init::ones);
  }
  add_vector(unit, prefix + "input_layernorm.weight", m.hidden_size, TpSplit::none, Init::ones);
  add_vector(unit, prefix + "post_attention_layernorm.weight", m.hidden_size, TpSplit::none, Init::ones);
  return unit;
}

}  // namespace

BlockIndex block_index(const config::Model& model) {
  BlockIndex index{.q_weight = 0,
                   .o_weight = 3,
                   .gate_weight = 4,
                   .down_weight = 6,
                   .q_bias = -1,
                   .q_norm = -1,
                   .k_norm = -1,
                   .input_norm = 0,
                   .post_attention_norm = 0};
  int next = 7;
  if (model.attention_bias) {
    index.q_bias = next;
    next += 3;
  }
  if (model.qk_norm) {
    index.q_norm = next++;
    index.k_norm = next++;
  }
  index.input_norm = next++;
  index.post_attention_norm = next;
  return index;
}

std::vector<Unit> make_units(const config::Model& m) {
  std::vector<Unit> units;
  units.emplace_back().name = "model.embed_tokens";
  add_matrix(units.back(), "model.embed_tokens.weight", m.vocab_size, m.hidden_size, TpSplit::rows);
  for (std::int64_t layer = 0; layer < m.num_hidden_layers; ++layer) units.push_back(make_block(m, layer));
  units.emplace_back().name = "head";
  add_vector(units.back(), "model.norm.weight", m.hidden_size, TpSplit::none, Init::ones);
  if (!m.tie_word_embeddings) {
    add_matrix(units.back(), "lm_head.weight", m.vocab_size, m.hidden_size, TpSplit::rows);
  }
  return units;
}

}  // namespace sft::model
