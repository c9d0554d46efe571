// SPDX-License-Identifier: Apache-2.0
#include "sft/model/architecture.hpp"

#include <array>
#include <map>
#include <string>
#include <utility>

#include "sft/core/error.hpp"

namespace sft::model {

namespace {

using parallel::Init;
using parallel::Parameter;
using parallel::ParameterGroup;
using parallel::TpSplit;
using parallel::Unit;

/// Of a matrix, logical.
struct Shape {
  std::int64_t rows, columns;
  TpSplit split;
};

/// Adds units to an architecture, and parameters to the last of them, and says where they went.
class UnitBuilder {
 public:
  UnitBuilder(Architecture& architecture, const IsTrainable& is_trainable, const config::Lora& lora)
      : units_(architecture.units),
        frozen_units_(architecture.frozen_units),
        is_trainable_(is_trainable),
        lora_(lora) {}

  void begin(const std::string& name) {
    units_.emplace_back().name = name;
    frozen_units_.emplace_back().name = name;
  }

  [[nodiscard]] int unit() const { return static_cast<int>(units_.size()) - 1; }

  ParameterGroup matrix(std::string name, std::int64_t rows, std::int64_t columns, TpSplit split) {
    const bool trainable = is_trainable_(name);
    return add(std::move(name), rows, columns, split, trainable);
  }

  ParameterGroup vector(std::string name, std::int64_t size, TpSplit split, Init init) {
    const ParameterGroup added = matrix(std::move(name), size, 0, split);
    parameters_of(added.trainable).back().init = init;
    return added;
  }

  /// The adapter of the matrix that is number `member` of `layer`, if `name` is to have one.
  void adapt(Linear& layer, int member, const std::string& full_name, const std::string& name, const Shape& matrix) {
    if (!lora_.adapts(name)) return;
    const std::string module = "base_model.model." + full_name;
    const bool splits_input = matrix.split == TpSplit::columns;
    Adapter adapter{.a = {}, .b = {}, .member = member, .splits_input = splits_input};
    // Of the rank-R product in the middle, tp ranks that split x have a part each, and so has B of its gradient; those
    // that split y have a part of its gradient each, and so has A.
    adapter.a = add(module + ".lora_A.weight", lora_.lora_r, matrix.columns,
                    splits_input ? TpSplit::columns : TpSplit::partial, true);
    parameters_of(true).back().init = Init::kaiming;
    adapter.b =
        add(module + ".lora_B.weight", matrix.rows, lora_.lora_r, splits_input ? TpSplit::partial : matrix.split, true);
    parameters_of(true).back().init = Init::zeros;
    layer.adapters.push_back(adapter);
  }

  /// `group` with the parameter that was added last, which ops use as one with it.
  ParameterGroup fuse(ParameterGroup group, const ParameterGroup& last) {
    ensure(last.trainable == group.trainable, "parameters that ops use as one are all trainable or all frozen");
    parameters_of(last.trainable)[static_cast<std::size_t>(last.first)].joins_previous = true;
    ++group.count;
    return group;
  }

 private:
  ParameterGroup add(std::string name, std::int64_t rows, std::int64_t columns, TpSplit split, bool trainable) {
    Parameter p;
    p.name = std::move(name);
    p.rows = rows;
    p.columns = columns;
    p.split = split;
    std::vector<Parameter>& parameters = parameters_of(trainable);
    parameters.push_back(std::move(p));
    return {.unit = unit(), .first = static_cast<int>(parameters.size()) - 1, .count = 1, .trainable = trainable};
  }

  [[nodiscard]] std::vector<Parameter>& parameters_of(bool trainable) {
    return (trainable ? units_ : frozen_units_).back().parameters;
  }

  std::vector<Unit>& units_;
  std::vector<Unit>& frozen_units_;
  const IsTrainable& is_trainable_;
  const config::Lora& lora_;
};

BlockParameters add_block(UnitBuilder& unit, const config::Model& m, std::int64_t layer) {
  const std::string unit_name = "model.layers." + std::to_string(layer);
  const std::string prefix = unit_name + ".";
  const std::string attention = prefix + "self_attn.";
  const std::int64_t q_rows = m.num_attention_heads * m.head_dim;
  const std::int64_t kv_rows = m.num_key_value_heads * m.head_dim;
  unit.begin(unit_name);
  BlockParameters block;
  block.unit = unit.unit();

  const std::string mlp = prefix + "mlp.";
  struct Member {
    Linear& layer;
    const std::string& prefix;
    const char* name;
    Shape shape;
  };
  const std::array members = {
      Member{block.qkv, attention, "q_proj", {q_rows, m.hidden_size, TpSplit::rows}},
      Member{block.qkv, attention, "k_proj", {kv_rows, m.hidden_size, TpSplit::kv_rows}},
      Member{block.qkv, attention, "v_proj", {kv_rows, m.hidden_size, TpSplit::kv_rows}},
      Member{block.o, attention, "o_proj", {m.hidden_size, q_rows, TpSplit::columns}},
      Member{block.gate_up, mlp, "gate_proj", {m.intermediate_size, m.hidden_size, TpSplit::rows}},
      Member{block.gate_up, mlp, "up_proj", {m.intermediate_size, m.hidden_size, TpSplit::rows}},
      Member{block.down, mlp, "down_proj", {m.hidden_size, m.intermediate_size, TpSplit::columns}}};
  for (const Member& member : members) {
    const Shape& shape = member.shape;
    const ParameterGroup matrix =
        unit.matrix(member.prefix + member.name + ".weight", shape.rows, shape.columns, shape.split);
    ParameterGroup& weight = member.layer.weight;
    weight = weight.exists() ? unit.fuse(weight, matrix) : matrix;
  }

  if (m.mlp_bias) {
    const std::int64_t size = m.intermediate_size;
    ParameterGroup& bias = block.gate_up.bias;
    bias = unit.vector(prefix + "mlp.gate_proj.bias", size, TpSplit::rows, Init::zeros);
    bias = unit.fuse(bias, unit.vector(prefix + "mlp.up_proj.bias", size, TpSplit::rows, Init::zeros));
    block.down.bias = unit.vector(prefix + "mlp.down_proj.bias", m.hidden_size, TpSplit::none, Init::zeros);
  }
  if (m.attention_output_bias) {
    block.o.bias = unit.vector(attention + "o_proj.bias", m.hidden_size, TpSplit::none, Init::zeros);
  }
  if (m.attention_bias) {
    ParameterGroup& bias = block.qkv.bias;
    bias = unit.vector(attention + "q_proj.bias", q_rows, TpSplit::rows, Init::zeros);
    bias = unit.fuse(bias, unit.vector(attention + "k_proj.bias", kv_rows, TpSplit::kv_rows, Init::zeros));
    bias = unit.fuse(bias, unit.vector(attention + "v_proj.bias", kv_rows, TpSplit::kv_rows, Init::zeros));
  }
  if (m.qk_norm) {
    block.q_norm = unit.vector(attention + "q_norm.weight", m.head_dim, TpSplit::partial, Init::ones);
    block.k_norm = unit.vector(attention + "k_norm.weight", m.head_dim, TpSplit::partial, Init::ones);
  }
  block.input_norm = unit.vector(prefix + "input_layernorm.weight", m.hidden_size, TpSplit::none, Init::ones);
  block.post_attention_norm =
      unit.vector(prefix + "post_attention_layernorm.weight", m.hidden_size, TpSplit::none, Init::ones);

  std::map<const Linear*, int> num_members;
  for (const Member& member : members) {
    unit.adapt(member.layer, num_members[&member.layer]++, member.prefix + member.name, member.name, member.shape);
  }
  return block;
}

}  // namespace

Architecture make_architecture(const config::Model& m, const IsTrainable& is_trainable, const config::Lora& lora) {
  Architecture result;
  UnitBuilder unit(result, is_trainable, lora);
  DecoderParameters& parameters = result.parameters;
  unit.begin("model.embed_tokens");
  parameters.embedding = unit.matrix("model.embed_tokens.weight", m.vocab_size, m.hidden_size, TpSplit::vocab_rows);
  for (std::int64_t layer = 0; layer < m.num_hidden_layers; ++layer) {
    parameters.blocks.push_back(add_block(unit, m, layer));
  }
  unit.begin("head");
  parameters.final_norm = unit.vector("model.norm.weight", m.hidden_size, TpSplit::none, Init::ones);
  parameters.head.weight = m.tie_word_embeddings
                               ? parameters.embedding
                               : unit.matrix("lm_head.weight", m.vocab_size, m.hidden_size, TpSplit::vocab_rows);
  return result;
}

Architecture make_architecture(const config::Config& config) {
  const bool trains_all = !config.lora.use_peft;
  return make_architecture(
      config.model, [=](const std::string&) { return trains_all; }, config.lora);
}

}  // namespace sft::model
