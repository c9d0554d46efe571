// SPDX-License-Identifier: Apache-2.0
#include "model/layers/gated_mlp.hpp"

#include <algorithm>
#include <cstdint>

#include "model/linear/declare.hpp"
#include "model/linear/fp8_products.hpp"
#include "sft/model/linear/linear.hpp"

namespace sft::model {

namespace {

/// The first elements of `memory` as (num_rows, num_columns).
Tensor leading(const Tensor& memory, std::int64_t num_rows, std::int64_t num_columns) {
  return memory.view({memory.num_elements()}).rows(0, num_rows * num_columns).view({num_rows, num_columns});
}

ops::GateRule activation_of(const config::Model& model) {
  const auto gate_of = [](config::Activation activation) {
    switch (activation) {
      case config::Activation::silu:
        return ops::Gate::silu;
      case config::Activation::gelu_pytorch_tanh:
        return ops::Gate::gelu_tanh;
      case config::Activation::relu2:
        return ops::Gate::relu2;
    }
    return ops::Gate::silu;
  };
  return {.gate = gate_of(model.hidden_act), .alone = !model.gated_mlp};
}

}  // namespace

std::vector<Linear> declare_gated_mlp(UnitBuilder& unit, const config::Model& model, const std::string& path,
                                      std::int64_t width) {
  using parallel::TpSplit;
  const Shape in{width, model.hidden_size, TpSplit::rows}, out{model.hidden_size, width, TpSplit::columns};
  std::vector<LinearMember> first{{path + ".up_proj", in}};
  if (model.gated_mlp) first.insert(first.begin(), {path + ".gate_proj", in});
  std::vector<Linear> layers;
  layers.push_back(declare_linear(unit, first));
  layers.push_back(declare_linear(unit, {{path + ".down_proj", out}}));
  return layers;
}

std::int64_t gated_mlp_tile_tokens(const Sizes& sizes, const ActivationPolicy& policy) {
  return std::min(policy.mlp_tile_tokens, sizes.tokens);
}

std::vector<SublayerTensor> gated_mlp_tensors(const Sizes& s, const ActivationPolicy& policy,
                                              const std::vector<Linear>& layers, int turn) {
  const std::int64_t width = layers[1].columns_in(s.tp_size), products = layers[0].columns_out(s.tp_size);
  const std::int64_t tile_tokens = gated_mlp_tile_tokens(s, policy);
  const auto of_tile = [&](const char* name, std::int64_t columns) {
    return SublayerTensor{.name = name,
                          .lifetime = Lifetime::pass,
                          .tensor = form_of(s.compute, {tile_tokens, columns}),
                          .rows_of_token = 0,
                          .turn = turn};
  };
  if (!policy.keeps_products()) return {of_tile("act", width), of_tile("tile_gate_up", products)};
  return {of_tile("act", width), {"gate_up", Lifetime::products, form_of(s.compute, {s.tokens, products})}};
}

GatedMlp::GatedMlp(const std::vector<Linear>& layers, const SublayerTensors& own)
    : gate_up_(layers[0]), down_(layers[1]), kept_(own["gate_up"]), tile_(own["tile_gate_up"]), act_(own["act"]) {}

/// Views for some of the tokens, one behind the other.
struct GatedMlp::Tile {
  std::int64_t begin, count;
  Tensor gate_up;  ///< rows of what the block keeps, or the memory that all tiles share
  Tensor act;      ///< memory that all tiles share
  Tensor normed, dnormed, delta, dbranch;
  GradientCodes of_gate_up, of_down;
};

/// Calls work(tile) for the tiles, in order.
template <class Work>
void GatedMlp::for_each_tile(const Context& c, BlockScratch& scratch, const Work& work) const {
  const std::int64_t num_tokens = scratch.normed.shape[0], tile_tokens = act_.shape[0], width = act_.shape[1];
  const std::int64_t products = gate_up_.columns_out(c.sizes.tp_size);
  for (std::int64_t begin = 0; begin < num_tokens; begin += tile_tokens) {
    const std::int64_t count = std::min(tile_tokens, num_tokens - begin);
    const auto rows = [&](const Tensor& all) { return all.empty() ? all : all.rows(begin, count); };
    Tile tile{.begin = begin,
              .count = count,
              .gate_up = kept_.empty() ? leading(tile_, count, products) : rows(kept_),
              .act = leading(act_, count, width),
              .normed = rows(scratch.normed),
              .dnormed = rows(scratch.dnormed),
              .delta = rows(scratch.delta),
              .dbranch = rows(scratch.dbranch),
              .of_gate_up = gradient_codes(c, LayerOfTwo::first),
              .of_down = gradient_codes(c, LayerOfTwo::second)};
    work(tile);
  }
}

void GatedMlp::forward(const Context& c, BlockScratch& scratch) const {
  prepare_magnitudes(c, gate_up_);
  prepare_magnitudes(c, down_);
  for_each_tile(c, scratch, [&](const Tile& tile) {
    linear_forward(c, gate_up_, tile.gate_up, tile.normed, tile.begin);
    c.ops.run(ops::GatedForward{.act = tile.act, .gate_up = tile.gate_up, .rule = activation_of(c.config)});
    linear_forward_partial(c, down_, tile.delta, tile.act, tile.begin);
  });
}

void GatedMlp::backward(const Context& c, BlockScratch& scratch, const std::function<void()>& start_normed) const {
  start_normed();  // beside the first gradients
  if (kept_.empty()) c.tp.finish();
  for_each_tile(c, scratch, [&](Tile& tile) {
    differentiate(c, tile);
    if (scratch.shares_branch_memory) {
      add_weight_gradients(c, tile);
      differentiate_input(c, tile);
      return;
    }
    differentiate_input(c, tile);
    c.tp.finish();
    c.tp.start_reduce(scratch.dnormed, tile.begin, tile.count);  // beside the weight gradients
    add_weight_gradients(c, tile);
    c.tp.finish();
  });
}

void GatedMlp::backward_term(const Context& c, BlockScratch& scratch) const {
  for_each_tile(c, scratch, [&](Tile& tile) {
    differentiate(c, tile);
    differentiate_input(c, tile);
    add_weight_gradients(c, tile);
  });
}

void GatedMlp::differentiate(const Context& c, Tile& tile) const {
  if (kept_.empty()) linear_forward(c, gate_up_, tile.gate_up, tile.normed, tile.begin);
  linear_backward_input(c, down_, tile.act, tile.dbranch, tile.begin, &tile.of_down);
  // In place: act, its gradient before, and the gradient of gate_up.
  c.ops.run(ops::GatedBackward{.dgate_up = tile.gate_up,
                               .act = tile.act,
                               .dact = tile.act,
                               .gate_up = tile.gate_up,
                               .rule = activation_of(c.config)});
}

void GatedMlp::differentiate_input(const Context& c, Tile& tile) const {
  linear_backward_input(c, gate_up_, tile.dnormed, tile.gate_up, tile.begin, &tile.of_gate_up);
}

void GatedMlp::add_weight_gradients(const Context& c, Tile& tile) const {
  linear_backward_weight(c, down_, tile.dbranch, tile.act, tile.begin, &tile.of_down);
  linear_backward_weight(c, gate_up_, tile.gate_up, tile.normed, tile.begin, &tile.of_gate_up);
}

}  // namespace sft::model
