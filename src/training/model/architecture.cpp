// SPDX-License-Identifier: Apache-2.0
#include "sft/model/architecture.hpp"

#include <fmt/core.h>

#include <memory>
#include <string>
#include <utility>

#include "model/layers/make_layers.hpp"
#include "model/linear/declare.hpp"
#include "model/unit_builder.hpp"
#include "sft/core/cast.hpp"
#include "sft/model/sublayer.hpp"

namespace sft::model {

namespace {

using parallel::ParameterGroup;
using parallel::TpSplit;
using parallel::UnitIndex;

/// Numbers that a block has for its adapters.
constexpr std::uint64_t max_adapters_of_block = 16;

/// What the norms around a half of a block are called; null: there is none.
struct NormNames {
  const char *input, *branch;
};

NormNames mixer_norm_names(config::BlockNorms norms) {
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

/// Adds a block, and begins the units that begin with it.
BlockParameters add_block(UnitBuilder& unit, const config::Model& m, const LayerPlan& plan, BlockIndex index,
                          int blocks_per_unit) {
  const BlockPlace place{.number = static_cast<std::size_t>(static_cast<int>(index)),
                         .path = fmt::format("model.layers.{}", static_cast<int>(index))};
  const std::string& name = place.path;
  const bool in_parts = blocks_per_unit == 0;
  std::uint64_t number = place.number * max_adapters_of_block;
  const auto add = [&](std::shared_ptr<Sublayer> layer, const NormNames& norm_names) {
    const NormGroups norms = add_norms(unit, m, name, norm_names);
    number = declare_adapters(unit, layer->linear_layers(), number);
    return BlockSublayer{.unit = unit.unit(), .layer = std::move(layer), .norms = norms};
  };
  BlockParameters block{.plan = plan, .mixer = {}, .mlp = {}};
  if (in_parts || index % blocks_per_unit == 0) unit.begin(in_parts ? name + ".self_attn" : name);
  block.mixer = add(make_mixer(unit, m, plan, place), mixer_norm_names(m.block_norms));
  if (in_parts) unit.begin(name + ".mlp");
  block.mlp = add(make_mlp(unit, m, plan, place), mlp_norm_names(m.block_norms));
  return block;
}

}  // namespace

std::vector<UnitIndex> DecoderParameters::forward_units() const {
  std::vector<UnitIndex> units{embedding_unit()};
  for (const BlockParameters& block : blocks) units.insert(units.end(), {block.mixer.unit, block.mlp.unit});
  units.insert(units.end(), {head_unit(), head.unit()});
  return units;
}

std::vector<UnitIndex> DecoderParameters::forward_backward_units(bool recomputes) const {
  std::vector<UnitIndex> units = forward_units();
  units.insert(units.end(), {head.unit(), head_unit()});
  for (const BlockIndex i : blocks.reversed_indices()) {
    const bool is_last = i == blocks.last();
    if (recomputes && !is_last) units.push_back(blocks[i].mixer.unit);
    units.insert(units.end(), {blocks[i].mlp.unit, blocks[i].mixer.unit});
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
  parameters.embedding = unit.matrix("model.embed_tokens.weight", {m.vocab_size, m.hidden_size, TpSplit::vocab_rows});
  for (const LayerPlan& plan : layer_plans(m)) {
    const auto index = BlockIndex::from(checked_cast<int>(parameters.blocks.size()));
    parameters.blocks.push_back(add_block(unit, m, plan, index, blocks_per_unit));
  }
  unit.begin("head");
  parameters.final_norm = unit.norm("model.norm.weight", m.hidden_size);
  parameters.head.is_head = true;
  parameters.head.weight = m.tie_word_embeddings
                               ? parameters.embedding
                               : unit.matrix("lm_head.weight", {m.vocab_size, m.hidden_size, TpSplit::vocab_rows});
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

}  // namespace sft::model
