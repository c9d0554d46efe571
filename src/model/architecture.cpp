// SPDX-License-Identifier: Apache-2.0
#include "sft/model/architecture.hpp"

#include <fmt/core.h>
#include <array>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "sft/core/cast.hpp"
#include "sft/core/ensure.hpp"
#include "sft/model/layers/dense_mlp.hpp"
#include "sft/model/layers/expert_mlp.hpp"

namespace sft::model {

namespace {

const std::string peft_prefix = "base_model.model.";

using parallel::Init;
using parallel::Parameter;
using parallel::ParameterGroup;
using parallel::PartIndex;
using parallel::PartUnits;
using parallel::TpSplit;
using parallel::Unit;
using parallel::UnitIndex;

/// The logical shape of a matrix.
struct Shape {
  std::int64_t rows, columns;
  TpSplit split;
};

/// Adds units to an architecture, and parameters to the last of them, and says where they went.
class UnitBuilder {
 public:
  UnitBuilder(Architecture& architecture, const config::Model& model, const IsTrainable& is_trainable,
              const config::Lora& lora, bool cuts_tokens, SentTiles sends_fp8)
      : parts_(architecture.parts),
        num_kv_heads_(model.num_key_value_heads),
        is_trainable_(is_trainable),
        lora_(lora),
        four_bits_(lora.four_bit_form()),
        four_bits_of_experts_(lora.four_bit_form_of_experts()),
        sends_fp8_(sends_fp8),
        norm_split_(cuts_tokens ? TpSplit::partial : TpSplit::none),
        norm_init_(model.zero_centered_norms ? Init::zeros : Init::ones) {}

  void begin(const std::string& name) {
    names_.push_back(name);
    for (PartUnits& part : parts_) part.units.emplace_back().name = name;
  }

  /// The number of the last unit.
  [[nodiscard]] UnitIndex unit() const { return names_.last(); }

  ParameterGroup matrix(std::string name, std::int64_t rows, std::int64_t columns, TpSplit split) {
    constexpr std::string_view suffix = ".weight";
    if (!name.ends_with(suffix) || !lora_.saves(name.substr(0, name.size() - suffix.size()))) {
      const PartIndex part = part_of(name);
      return add(std::move(name), rows, columns, split, part);
    }
    const PartIndex part = trained_part();
    const ParameterGroup added = add(peft_prefix + name, rows, columns, split, part);
    Parameter& copy = parameters_in(part).back();
    copy.copy_of = std::move(name);
    if (columns == 0) copy.rate_factor = lora_.loraplus_lr_ratio;
    return added;
  }

  /// That of a linear layer of a block, which may be kept in 4 bits.
  ParameterGroup linear(std::string name, const Shape& shape) {
    constexpr std::string_view suffix = ".weight";
    const bool is_trained = is_trainable_(name);
    const bool is_number =
        is_trained || !four_bits_ || lora_.skips_four_bits(name.substr(0, name.size() - suffix.size()));
    const PartIndex part = part_with(is_trained, /*of_experts=*/false, is_number ? std::nullopt : four_bits_,
                                     /*in_float32=*/false, sends_fp8_);
    return add(std::move(name), shape.rows, shape.columns, shape.split, part);
  }

  /// A matrix, or a bias where `shape` has no columns.
  ParameterGroup parameter_of_expert(std::string name, const Shape& shape, int expert, int num_experts) {
    const bool is_trained = is_trainable_(name), is_matrix = shape.columns > 0;
    const PartIndex part =
        part_with(is_trained, /*of_experts=*/true, is_matrix && !is_trained ? four_bits_of_experts_ : std::nullopt,
                  /*in_float32=*/false, is_matrix ? sends_fp8_ : std::nullopt);
    const ParameterGroup added = add(std::move(name), shape.rows, shape.columns, shape.split, part);
    Parameter& parameter = parameters_in(part).back();
    parameter.expert = expert;
    parameter.num_experts = num_experts;
    if (!is_matrix) parameter.init = Init::zeros;
    return added;
  }

  /// A vector that is no parameter to train, and that ops read as float32.
  ParameterGroup constant(std::string name, std::int64_t size) {
    const PartIndex part =
        part_with(/*has_gradient=*/false, /*of_experts=*/false, /*four_bits=*/{}, /*in_float32=*/true);
    const ParameterGroup added = add(std::move(name), size, 0, TpSplit::none, part);
    parameters_in(part).back().init = Init::zeros;
    return added;
  }

  ParameterGroup vector(std::string name, std::int64_t size, TpSplit split, Init init) {
    const ParameterGroup added = matrix(std::move(name), size, 0, split);
    parameters_in(added.part).back().init = init;
    return added;
  }

  /// The weight of a norm of the residual stream.
  ParameterGroup norm(std::string name, std::int64_t size) {
    return vector(std::move(name), size, norm_split_, norm_init_);
  }

  /// Scores of attention beside those of the keys.
  ParameterGroup sinks(std::string name, std::int64_t num_heads) {
    const ParameterGroup added = vector(std::move(name), num_heads, TpSplit::rows, Init::normal);
    parameters_in(added.part).back().is_score_vector = true;
    return added;
  }

  /// What the weights of norms begin with.
  [[nodiscard]] Init norm_init() const { return norm_init_; }

  /// The adapter of the matrix that is number `member` of `layer`, if the module `path` is to have one.
  void adapt(Linear& layer, int member, const std::string& path, const Shape& matrix, std::uint64_t number) {
    const std::optional<config::AdapterSize> size = lora_.adapter_of(path);
    if (!size) return;
    const std::string module = peft_prefix + path;
    const bool splits_input = matrix.split == TpSplit::columns;
    const PartIndex part = trained_part();
    Adapter adapter{.a = {},
                    .b = {},
                    .magnitude = {},
                    .member = member,
                    .splits_input = splits_input,
                    .scale = static_cast<float>(size->scale),
                    .number = number};
    // tp ranks that split x have a term each of the rank-R product in the middle, and so has B of its gradient; those
    // that split y have a term of the product's gradient each, and so has A of its own.
    adapter.a = add(module + ".lora_A.weight", size->rank, matrix.columns,
                    splits_input ? TpSplit::columns : TpSplit::partial, part);
    const config::AdapterInit& init = lora_.init_lora_weights;
    parameters_in(part).back().init = init.splits_weights()                     ? Init::zeros  // until these are there
                                      : init.kind == config::LoraInit::gaussian ? Init::by_rows
                                                                                : Init::kaiming;
    adapter.b =
        add(module + ".lora_B.weight", matrix.rows, size->rank, splits_input ? TpSplit::partial : matrix.split, part);
    Parameter& b = parameters_in(part).back();
    b.init = init.kind == config::LoraInit::linear ? Init::kaiming : Init::zeros;
    b.rate_factor = lora_.loraplus_lr_ratio;
    if (lora_.use_dora) {
      const PartIndex exact =
          part_with(/*has_gradient=*/true, /*of_experts=*/false, /*four_bits=*/{}, /*in_float32=*/true);
      adapter.magnitude =
          add(module + ".lora_magnitude_vector", matrix.rows, 0, splits_input ? TpSplit::partial : matrix.split, exact);
      Parameter& magnitude = parameters_in(exact).back();
      magnitude.init = Init::zeros;  // until the weights are there, whose norms it begins with
      magnitude.rate_factor = lora_.loraplus_lr_ratio;
    }
    layer.adapters.push_back(adapter);
  }

  /// One matrix of an adapter of an expert.
  struct ExpertFactor {
    std::string name;  ///< without PEFT's prefix
    Shape shape;
    Init init;
    std::int64_t fan_in;
    double rate_factor;
  };

  ParameterGroup factor_of_expert(const ExpertFactor& factor, int expert, int num_experts) {
    const PartIndex part = part_with(/*has_gradient=*/true, /*of_experts=*/true);
    const Shape& shape = factor.shape;
    const ParameterGroup added = add(peft_prefix + factor.name, shape.rows, shape.columns, shape.split, part);
    Parameter& parameter = parameters_in(part).back();
    parameter.expert = expert;
    parameter.num_experts = num_experts;
    parameter.init = factor.init;
    parameter.fan_in = factor.fan_in;
    parameter.rate_factor = factor.rate_factor;
    return added;
  }

  [[nodiscard]] const config::Lora& lora() const { return lora_; }

  /// `group` with the parameter that was added last, which ops use as one with it.
  ParameterGroup fuse(ParameterGroup group, const ParameterGroup& last) {
    SFT_ENSURE(last.part == group.part, "parameters that ops use as one are in one part: all trained, or none");
    parameters_in(last.part)[last.first].joins_previous = true;
    ++group.count;
    return group;
  }

 private:
  ParameterGroup add(std::string name, std::int64_t rows, std::int64_t columns, TpSplit split, PartIndex part) {
    Parameter p;
    p.name = std::move(name);
    p.rows = rows;
    p.columns = columns;
    p.split = split;
    if (split == TpSplit::kv_rows) p.num_kv_heads = num_kv_heads_;
    std::vector<Parameter>& parameters = parameters_in(part);
    const int number = checked_cast<int>(parameters.size());
    parameters.push_back(std::move(p));
    return {.unit = unit(), .part = part, .first = number, .count = 1};
  }

  /// The one place that decides in which part a parameter of the model is: parts differ in whether they are trained,
  /// whether they are experts', whether they are kept in 4 bits, and whether they are sent in 8.
  [[nodiscard]] PartIndex part_of(const std::string& name) { return part_with(is_trainable_(name)); }
  [[nodiscard]] PartIndex trained_part() { return part_with(/*has_gradient=*/true); }
  /// The part that has gradients, or has none, of experts or of all else, in 4 bits, always in float32, in fp8 or none
  /// of these; it joins the list with its first parameter.
  [[nodiscard]] PartIndex part_with(bool has_gradient, bool of_experts = false,
                                    std::optional<FourBitForm> four_bits = {}, bool in_float32 = false,
                                    SentTiles in_fp8 = {}) {
    for (const PartIndex index : parts_.indices()) {
      const PartUnits& part = parts_[index];
      if (part.has_gradient != has_gradient || part.of_experts != of_experts) continue;
      if (part.four_bits == four_bits && part.in_float32 == in_float32 && part.in_fp8 == in_fp8) return index;
    }
    std::vector<Unit> units;
    for (const std::string& name : names_) units.emplace_back().name = name;
    parts_.push_back({.units = std::move(units),
                      .has_gradient = has_gradient,
                      .of_experts = of_experts,
                      .four_bits = four_bits,
                      .in_float32 = in_float32,
                      .in_fp8 = in_fp8});
    return parts_.last();
  }

  /// The parameters of the last unit in that part.
  [[nodiscard]] std::vector<Parameter>& parameters_in(PartIndex part) { return parts_[part].units.back().parameters; }

  IndexedVector<PartIndex, PartUnits>& parts_;
  IndexedVector<UnitIndex, std::string> names_;  ///< of the units so far
  const std::int64_t num_kv_heads_;
  const IsTrainable& is_trainable_;
  const config::Lora& lora_;
  std::optional<FourBitForm> four_bits_;             ///< of frozen matrices of linear layers
  std::optional<FourBitForm> four_bits_of_experts_;  ///< of those of experts
  SentTiles sends_fp8_;                              ///< PartUnits::in_fp8, of what products in fp8 read
  TpSplit norm_split_;
  Init norm_init_;
};

/// One matrix of a linear layer, which may be fused of several.
struct Member {
  Linear& layer;
  const char* name;
  Shape shape;
};

/// The matrices of layers whose names begin with `prefix`.
void add_matrices(UnitBuilder& unit, const std::string& prefix, std::span<const Member> members) {
  for (const Member& member : members) {
    const Shape& shape = member.shape;
    const ParameterGroup matrix = unit.linear(fmt::format("{}{}.weight", prefix, member.name), shape);
    ParameterGroup& weight = member.layer.weight;
    weight = weight.exists() ? unit.fuse(weight, matrix) : matrix;
  }
}

/// Their adapters; `number` of the first.
void add_adapters(UnitBuilder& unit, const std::string& prefix, std::span<const Member> members, std::uint64_t number) {
  std::map<const Linear*, int> num_members;
  for (const Member& member : members) {
    unit.adapt(member.layer, num_members[&member.layer]++, prefix + member.name, member.shape, number++);
  }
}

/// What the norms around a half of a block are called; null: there is none.
struct NormNames {
  const char *input, *branch;
};

NormNames attention_norm_names(config::BlockNorms norms) {
  switch (norms) {
    case config::BlockNorms::pre:
      return {"input_layernorm", nullptr};
    case config::BlockNorms::glm4:
      return {"input_layernorm", "post_self_attn_layernorm"};
    case config::BlockNorms::olmo2:
      return {nullptr, "post_attention_layernorm"};
    case config::BlockNorms::gemma2:
      return {"input_layernorm", "post_attention_layernorm"};
  }
  return {};
}

NormNames mlp_norm_names(config::BlockNorms norms) {
  switch (norms) {
    case config::BlockNorms::pre:
      return {"post_attention_layernorm", nullptr};
    case config::BlockNorms::glm4:
      return {"post_attention_layernorm", "post_mlp_layernorm"};
    case config::BlockNorms::olmo2:
      return {nullptr, "post_feedforward_layernorm"};
    case config::BlockNorms::gemma2:
      return {"pre_feedforward_layernorm", "post_feedforward_layernorm"};
  }
  return {};
}

NormGroups add_norms(UnitBuilder& unit, const config::Model& m, const std::string& layer, const NormNames& names) {
  const auto add = [&](const char* name) {
    return name == nullptr ? ParameterGroup() : unit.norm(fmt::format("{}.{}.weight", layer, name), m.hidden_size);
  };
  const ParameterGroup input = add(names.input);
  return {.input = input, .branch = add(names.branch)};
}

void add_attention(UnitBuilder& unit, const config::Model& m, const std::string& layer, std::uint64_t number,
                   BlockParameters& block) {
  const std::string prefix = layer + ".self_attn.";
  const std::int64_t q_rows = m.num_attention_heads * m.head_dim;
  const std::int64_t kv_rows = m.num_key_value_heads * m.head_dim;
  const std::array members = {Member{block.qkv, "q_proj", {q_rows, m.hidden_size, TpSplit::rows}},
                              Member{block.qkv, "k_proj", {kv_rows, m.hidden_size, TpSplit::kv_rows}},
                              Member{block.qkv, "v_proj", {kv_rows, m.hidden_size, TpSplit::kv_rows}},
                              Member{block.o, "o_proj", {m.hidden_size, q_rows, TpSplit::columns}}};
  block.attention_unit = unit.unit();
  add_matrices(unit, prefix, members);
  if (m.attention_output_bias) {
    block.o.bias = unit.vector(prefix + "o_proj.bias", m.hidden_size, TpSplit::none, Init::zeros);
  }
  if (m.attention_bias) {
    ParameterGroup& bias = block.qkv.bias;
    bias = unit.vector(prefix + "q_proj.bias", q_rows, TpSplit::rows, Init::zeros);
    bias = unit.fuse(bias, unit.vector(prefix + "k_proj.bias", kv_rows, TpSplit::kv_rows, Init::zeros));
    bias = unit.fuse(bias, unit.vector(prefix + "v_proj.bias", kv_rows, TpSplit::kv_rows, Init::zeros));
  }
  if (block.plan.has_sinks) {
    block.sinks = unit.sinks(prefix + "sinks", m.num_attention_heads);
  }
  const Init norm_init = unit.norm_init();
  if (block.plan.qk_norm == LayerPlan::QkNorm::heads) {
    block.q_norm = unit.vector(prefix + "q_norm.weight", m.head_dim, TpSplit::partial, norm_init);
    block.k_norm = unit.vector(prefix + "k_norm.weight", m.head_dim, TpSplit::partial, norm_init);
  } else if (block.plan.qk_norm == LayerPlan::QkNorm::all_heads) {
    block.q_norm = unit.vector(prefix + "q_norm.weight", q_rows, TpSplit::rows, norm_init);
    block.k_norm = unit.vector(prefix + "k_norm.weight", kv_rows, TpSplit::kv_rows, norm_init);
  }
  block.attention_norms = add_norms(unit, m, layer, attention_norm_names(m.block_norms));
  add_adapters(unit, prefix, members, number);
}

/// The matrices of a gated MLP of `size` columns.
std::array<Member, 3> gated_members(Linear& gate_up, Linear& down, std::int64_t size, std::int64_t hidden_size) {
  return {Member{gate_up, "gate_proj", {size, hidden_size, TpSplit::rows}},
          Member{gate_up, "up_proj", {size, hidden_size, TpSplit::rows}},
          Member{down, "down_proj", {hidden_size, size, TpSplit::columns}}};
}

void add_dense_mlp(UnitBuilder& unit, const config::Model& m, const std::string& layer, std::uint64_t number,
                   BlockParameters& block) {
  const std::string prefix = layer + ".mlp.";
  const std::int64_t size = m.intermediate_size;
  Linear gate_up, down;
  const std::array members = gated_members(gate_up, down, size, m.hidden_size);
  add_matrices(unit, prefix, members);
  if (m.mlp_bias) {
    ParameterGroup& bias = gate_up.bias;
    bias = unit.vector(prefix + "gate_proj.bias", size, TpSplit::rows, Init::zeros);
    bias = unit.fuse(bias, unit.vector(prefix + "up_proj.bias", size, TpSplit::rows, Init::zeros));
    down.bias = unit.vector(prefix + "down_proj.bias", m.hidden_size, TpSplit::none, Init::zeros);
  }
  block.mlp_norms = add_norms(unit, m, layer, mlp_norm_names(m.block_norms));
  add_adapters(unit, prefix, members, number);
  block.mlp = std::make_shared<DenseMlp>(std::move(gate_up), std::move(down));
}

/// A weight of all experts as adapters see it.
struct ExpertTarget {
  const char* name;                  ///< in transformers: gate_up_proj
  std::vector<const char*> outputs;  ///< what its columns of the output belong to in the model, equally many to each
  std::int64_t in, out;              ///< `out` of each of them
  bool splits_input;                 ///< tp ranks hold different columns of what it reads, not of what it gives
};

/// The adapters of a weight of the experts below `prefix`, "model.layers.0.mlp.experts", if it is to have some: those
/// of all experts one behind the other.
void adapt_experts(UnitBuilder& unit, const std::string& prefix, int num_experts, const ExpertTarget& target,
                   ExpertLinear& layer) {
  const config::Lora& lora = unit.lora();
  const std::optional<config::AdapterSize> size = lora.expert_adapter_of(fmt::format("{}.{}", prefix, target.name));
  if (!size) return;
  ExpertAdapter& adapter = layer.adapter;
  adapter.scale = static_cast<float>(size->scale);
  const auto add = [&](ParameterGroup& group, int expert, UnitBuilder::ExpertFactor factor) {
    factor.name = fmt::format("{}.{}.{}", prefix, expert, factor.name);
    const ParameterGroup added = unit.factor_of_expert(factor, expert, num_experts);
    group = group.exists() ? unit.fuse(group, added) : added;
  };
  const config::LoraInit init = lora.init_lora_weights.kind;
  // Who has a term of which gradient, as in UnitBuilder::adapt.
  for (int expert = 0; expert < num_experts; ++expert) {
    add(adapter.a, expert,
        {.name = std::string(target.name) + ".lora_A.weight",
         .shape = {size->rank, target.in, target.splits_input ? TpSplit::columns : TpSplit::partial},
         .init = init == config::LoraInit::gaussian ? Init::by_rows : Init::kaiming,
         .fan_in = target.in,
         .rate_factor = 1.0});
  }
  for (int expert = 0; expert < num_experts; ++expert) {
    for (const char* output : target.outputs) {
      add(adapter.b, expert,
          {.name = std::string(output) + ".lora_B.weight",
           .shape = {target.out, size->rank, target.splits_input ? TpSplit::partial : TpSplit::rows},
           .init = init == config::LoraInit::linear ? Init::kaiming : Init::zeros,
           .fan_in = num_experts * size->rank,  // PEFT has one matrix of all experts
           .rate_factor = lora.loraplus_lr_ratio});
    }
  }
}

/// The matrices of all experts, and their biases, those that a grouped product takes together one behind the other, in
/// a part of their own; and those of the MLP beside them, where there is one, which `number` begins to count the
/// adapters of.
void add_experts(UnitBuilder& unit, const config::Model& m, const std::string& layer, std::uint64_t number,
                 BlockParameters& block) {
  const std::string prefix = layer + ".mlp.";
  const std::int64_t size = m.moe_intermediate_size;
  ExpertParameters experts;
  // What `names` are in each expert, all in one group.
  const auto add = [&](ParameterGroup& group, std::span<const char* const> names, const Shape& shape) {
    for (std::int64_t expert = 0; expert < m.num_experts; ++expert) {
      for (const char* name : names) {
        const ParameterGroup added =
            unit.parameter_of_expert(fmt::format("{}experts.{}.{}", prefix, expert, name), shape,
                                     checked_cast<int>(expert), checked_cast<int>(m.num_experts));
        group = group.exists() ? unit.fuse(group, added) : added;
      }
    }
  };
  if (m.expert_form == config::ExpertForm::gpt_oss) {
    experts.router = unit.matrix(prefix + "router.weight", m.num_experts, m.hidden_size, TpSplit::partial);
    experts.router_bias = unit.vector(prefix + "router.bias", m.num_experts, TpSplit::partial, Init::zeros);
    add(experts.gate_up.weight, std::array{"gate_up_proj.weight"}, {m.hidden_size, 2 * size, TpSplit::columns});
    add(experts.gate_up.bias, std::array{"gate_up_proj.bias"}, {2 * size, 0, TpSplit::rows});
    add(experts.down.weight, std::array{"down_proj.weight"}, {size, m.hidden_size, TpSplit::rows});
    add(experts.down.bias, std::array{"down_proj.bias"}, {m.hidden_size, 0, TpSplit::none});
  } else {
    experts.router = unit.matrix(prefix + "gate.weight", m.num_experts, m.hidden_size, TpSplit::partial);
    if (m.scoring_func == config::ScoringFunc::sigmoid) {
      experts.correction = unit.constant(prefix + "gate.e_score_correction_bias", m.num_experts);
    }
    add(experts.gate_up.weight, std::array{"gate_proj.weight", "up_proj.weight"}, {size, m.hidden_size, TpSplit::rows});
    add(experts.down.weight, std::array{"down_proj.weight"}, {m.hidden_size, size, TpSplit::columns});
  }
  const bool is_gpt_oss = m.expert_form == config::ExpertForm::gpt_oss;
  const int num_experts = checked_cast<int>(m.num_experts);
  const ExpertTarget gate_up_target{
      .name = "gate_up_proj",
      .outputs = is_gpt_oss ? std::vector{"gate_up_proj"} : std::vector{"gate_proj", "up_proj"},
      .in = m.hidden_size,
      .out = is_gpt_oss ? 2 * size : size,
      .splits_input = false};
  adapt_experts(unit, prefix + "experts", num_experts, gate_up_target, experts.gate_up);
  const ExpertTarget down_target{
      .name = "down_proj", .outputs = {"down_proj"}, .in = size, .out = m.hidden_size, .splits_input = true};
  adapt_experts(unit, prefix + "experts", num_experts, down_target, experts.down);
  Linear gate_up, down;
  const std::array shared = gated_members(gate_up, down, m.shared_intermediate_size(), m.hidden_size);
  const std::string shared_prefix = prefix + "shared_experts.";
  if (m.n_shared_experts > 0) add_matrices(unit, shared_prefix, shared);
  block.mlp_norms = add_norms(unit, m, layer, mlp_norm_names(m.block_norms));
  std::optional<DenseMlp> shared_mlp;
  if (m.n_shared_experts > 0) {
    add_adapters(unit, shared_prefix, shared, number);
    shared_mlp.emplace(std::move(gate_up), std::move(down), &Sizes::shared_mlp);
  }
  block.mlp = std::make_shared<ExpertMlp>(experts, block.plan.expert_layer, std::move(shared_mlp));
}

void add_mlp(UnitBuilder& unit, const config::Model& m, const std::string& layer, std::uint64_t number,
             BlockParameters& block) {
  block.mlp_unit = unit.unit();
  switch (block.plan.mlp) {
    case LayerPlan::MlpKind::dense:
      add_dense_mlp(unit, m, layer, number, block);
      break;
    case LayerPlan::MlpKind::experts:
      add_experts(unit, m, layer, number, block);
      break;
  }
}

/// Adds a block, and begins the units that begin with it.
BlockParameters add_block(UnitBuilder& unit, const config::Model& m, const LayerPlan& plan, BlockIndex index,
                          int blocks_per_unit) {
  constexpr std::uint64_t num_adapters_of_attention = 4;
  const std::string name = fmt::format("model.layers.{}", static_cast<int>(index));
  const std::uint64_t number = static_cast<std::uint64_t>(static_cast<int>(index)) * max_adapters_of_block;
  const bool in_parts = blocks_per_unit == 0;
  BlockParameters block;
  block.plan = plan;
  if (in_parts || index % blocks_per_unit == 0) unit.begin(in_parts ? name + ".self_attn" : name);
  add_attention(unit, m, name, number, block);
  if (in_parts) unit.begin(name + ".mlp");
  add_mlp(unit, m, name, number + num_adapters_of_attention, block);
  return block;
}

}  // namespace

bool is_factor_of_adapter(const std::string& parameter) {
  return parameter.starts_with(peft_prefix) &&
         (parameter.ends_with(".lora_A.weight") || parameter.ends_with(".lora_B.weight"));
}

std::optional<AdapterNames> adapter_of_a(const std::string& parameter) {
  constexpr std::string_view suffix = ".lora_A.weight";
  if (!parameter.starts_with(peft_prefix) || !parameter.ends_with(suffix)) return std::nullopt;
  const std::string module =
      parameter.substr(peft_prefix.size(), parameter.size() - peft_prefix.size() - suffix.size());
  return AdapterNames{.module = module,
                      .a = parameter,
                      .b = fmt::format("{}{}.lora_B.weight", peft_prefix, module),
                      .weight = module + ".weight"};
}

std::vector<UnitIndex> DecoderParameters::forward_units() const {
  std::vector<UnitIndex> units{embedding_unit()};
  for (const BlockParameters& block : blocks) units.insert(units.end(), {block.attention_unit, block.mlp_unit});
  units.insert(units.end(), {head_unit(), head.unit()});
  return units;
}

std::vector<UnitIndex> DecoderParameters::forward_backward_units(bool recomputes) const {
  std::vector<UnitIndex> units = forward_units();
  units.insert(units.end(), {head.unit(), head_unit()});
  for (const BlockIndex i : blocks.reversed_indices()) {
    const bool is_last = i == blocks.last();
    if (recomputes && !is_last) units.push_back(blocks[i].attention_unit);
    units.insert(units.end(), {blocks[i].mlp_unit, blocks[i].attention_unit});
  }
  units.push_back(embedding_unit());
  return units;
}

Architecture make_architecture(const config::Model& m, const IsTrainable& is_trainable, const config::Lora& lora,
                               int blocks_per_unit, bool cuts_tokens, SentTiles sends_fp8) {
  Architecture result;
  UnitBuilder unit(result, m, is_trainable, lora, cuts_tokens, sends_fp8);
  DecoderParameters& parameters = result.parameters;
  unit.begin("model.embed_tokens");
  parameters.embedding = unit.matrix("model.embed_tokens.weight", m.vocab_size, m.hidden_size, TpSplit::vocab_rows);
  for (const LayerPlan& plan : layer_plans(m)) {
    const auto index = BlockIndex::from(checked_cast<int>(parameters.blocks.size()));
    parameters.blocks.push_back(add_block(unit, m, plan, index, blocks_per_unit));
  }
  unit.begin("head");
  parameters.final_norm = unit.norm("model.norm.weight", m.hidden_size);
  parameters.head.is_head = true;
  parameters.head.weight = m.tie_word_embeddings
                               ? parameters.embedding
                               : unit.matrix("lm_head.weight", m.vocab_size, m.hidden_size, TpSplit::vocab_rows);
  return result;
}

Architecture make_architecture(const config::ValidConfig& config) {
  const bool trains_all = !config->lora.use_peft;
  return make_architecture(
      config->model, [=](const std::string&) { return trains_all; }, config->lora, config->parallel.blocks_per_unit,
      config->parallel.token_slices() > 1, sends_fp8(config));
}

SentTiles sends_fp8(const config::ValidConfig& config) {
  const bool has_shards = config->parallel.zero_stage > 0 && num_ranks(config->parallel.sizes(), fsdp_axes) > 1;
  if (!has_shards || config->train.fp8 == config::Fp8::none) return {};
  return config->train.fp8 == config::Fp8::blockwise ? ops::Fp8Tiles::blocks : ops::Fp8Tiles::whole;
}

HeadSplit split_heads(const config::Model& model, int tp_size, TpRank tp_rank) {
  const int num_heads = checked_cast<int>(model.num_attention_heads);
  const int num_kv_heads = checked_cast<int>(model.num_key_value_heads);
  SFT_ENSURE(num_heads % tp_size == 0, "tp_size divides the query heads");
  const int q_heads = num_heads / tp_size;
  if (num_kv_heads >= tp_size) {
    SFT_ENSURE(num_kv_heads % tp_size == 0, "tp_size divides the key/value heads");
    const int kv_heads = num_kv_heads / tp_size;
    return {q_heads, kv_heads, tp_rank * kv_heads, 1};
  }
  SFT_ENSURE(tp_size % num_kv_heads == 0, "the key/value heads divide tp_size");
  const int replicas = tp_size / num_kv_heads;
  return {q_heads, 1, tp_rank / replicas, replicas};
}

}  // namespace sft::model
