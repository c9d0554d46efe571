// SPDX-License-Identifier: Apache-2.0
#include "sft/model/architecture.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
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

/// The norms around a sublayer of the block at `path`.
NormGroups add_norms(UnitBuilder& unit, const config::Model& m, const std::string& path, const SublayerPlan& sublayer) {
  const auto add = [&](const std::string& name) {
    return name.empty() ? ParameterGroup() : unit.norm(fmt::format("{}.{}.weight", path, name), m.hidden_size);
  };
  const ParameterGroup input = add(sublayer.input_norm);
  return {.input = input, .branch = add(sublayer.branch_norm)};
}

/// Adds a block, and begins the units that begin with it.
BlockParameters add_block(UnitBuilder& unit, const config::Model& m, const LayerPlan& plan, BlockIndex index,
                          int blocks_per_unit) {
  const auto number = static_cast<std::size_t>(static_cast<int>(index));
  const std::string path = fmt::format("model.layers.{}", number);
  const bool in_parts = blocks_per_unit == 0;
  std::uint64_t adapter = number * max_adapters_of_block;
  BlockParameters block{.plan = plan, .sublayers = {}};
  if (!in_parts && index % blocks_per_unit == 0) unit.begin(path);
  for (const SublayerPlan& sublayer : plan_sublayers(m, plan, number)) {
    const std::string module = fmt::format("{}.{}", path, sublayer.module);
    if (in_parts) unit.begin(module);
    std::shared_ptr<Sublayer> layer = sublayer.make(unit, module);
    const NormGroups norms = add_norms(unit, m, path, sublayer);
    adapter = declare_adapters(unit, layer->linear_layers(), adapter);
    block.sublayers.push_back({.unit = unit.unit(), .layer = std::move(layer), .norms = norms});
  }
  return block;
}

}  // namespace

std::vector<UnitIndex> DecoderParameters::block_units() const {
  std::vector<UnitIndex> units;
  for (const BlockParameters& block : blocks) {
    for (const BlockSublayer& sublayer : block.sublayers) units.push_back(sublayer.unit);
  }
  return units;
}

std::vector<UnitIndex> DecoderParameters::forward_units() const {
  std::vector<UnitIndex> units = block_units();
  units.insert(units.begin(), embedding_unit());
  units.insert(units.end(), {head_unit(), head.unit()});
  return units;
}

std::vector<UnitIndex> DecoderParameters::forward_backward_units(bool recomputes) const {
  std::vector<UnitIndex> units = forward_units();
  units.insert(units.end(), {head.unit(), head_unit()});
  const auto unit_of = [](const BlockSublayer& sublayer) { return sublayer.unit; };
  for (const BlockIndex i : blocks.reversed_indices()) {
    const std::vector<BlockSublayer>& sublayers = blocks[i].sublayers;
    if (recomputes && i != blocks.last()) {
      std::transform(sublayers.begin(), sublayers.end() - 1, std::back_inserter(units), unit_of);
    }
    std::transform(sublayers.rbegin(), sublayers.rend(), std::back_inserter(units), unit_of);
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
