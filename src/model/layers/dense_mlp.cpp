// SPDX-License-Identifier: Apache-2.0
#include "sft/model/layers/dense_mlp.hpp"

#include <algorithm>
#include <cstdint>

#include "model/linear/fp8_products.hpp"
#include "sft/model/linear/linear.hpp"

namespace sft::model {

namespace {

/// The first elements of `memory` as (num_rows, num_columns).
Tensor leading(const Tensor& memory, std::int64_t num_rows, std::int64_t num_columns) {
  return memory.view({memory.num_elements()}).rows(0, num_rows * num_columns).view({num_rows, num_columns});
}

bool is_swiglu(const Context& c) { return c.config.hidden_act == config::Activation::silu; }

void gate_forward(const Context& c, const Tensor& act, const Tensor& gate_up) {
  if (is_swiglu(c)) return c.ops.run(ops::SwigluForward{act, gate_up});
  c.ops.run(ops::GatedForward{.act = act, .gate_up = gate_up, .rule = {.gate = ops::Gate::gelu_tanh}});
}

/// In place: act, its gradient before, and the gradient of gate_up.
void gate_backward(const Context& c, const Tensor& act, const Tensor& gate_up) {
  if (is_swiglu(c)) return c.ops.run(ops::SwigluBackward{gate_up, act, act, gate_up});
  c.ops.run(ops::GatedBackward{
      .dgate_up = gate_up, .act = act, .dact = act, .gate_up = gate_up, .rule = {.gate = ops::Gate::gelu_tanh}});
}

}  // namespace

/// Views for some of the tokens, one behind the other.
struct DenseMlp::Tile {
  std::int64_t begin, count;
  Tensor gate_up;  ///< rows of what the block keeps, or the memory that all tiles share
  Tensor act;      ///< memory that all tiles share
  Tensor normed, dnormed, delta, dbranch;
  GradientCodes of_gate_up, of_down;
};

/// Calls work(tile) for the tiles, in order.
template <class Work>
void DenseMlp::for_each_tile(const Context& c, MlpActivations& saved, BlockScratch& scratch, const Work& work) const {
  const std::int64_t num_tokens = scratch.normed.shape[0], tile_tokens = scratch.act.shape[0], width = c.sizes.*width_;
  for (std::int64_t begin = 0; begin < num_tokens; begin += tile_tokens) {
    const std::int64_t count = std::min(tile_tokens, num_tokens - begin);
    const auto rows = [&](const Tensor& all) { return all.empty() ? all : all.rows(begin, count); };
    Tile tile{.begin = begin,
              .count = count,
              .gate_up = saved.gate_up.empty() ? leading(scratch.gate_up, count, 2 * width) : rows(saved.gate_up),
              .act = leading(scratch.act, count, width),
              .normed = rows(scratch.normed),
              .dnormed = rows(scratch.dnormed),
              .delta = rows(scratch.delta),
              .dbranch = rows(scratch.dbranch),
              .of_gate_up = gradient_codes(c, LayerOfTwo::first),
              .of_down = gradient_codes(c, LayerOfTwo::second)};
    work(tile);
  }
}

void DenseMlp::forward(const Context& c, MlpActivations& saved, BlockScratch& scratch) const {
  prepare_magnitudes(c, gate_up_);
  prepare_magnitudes(c, down_);
  for_each_tile(c, saved, scratch, [&](const Tile& tile) {
    linear_forward(c, gate_up_, tile.gate_up, tile.normed, tile.begin);
    gate_forward(c, tile.act, tile.gate_up);
    linear_forward_partial(c, down_, tile.delta, tile.act, tile.begin);
  });
}

void DenseMlp::backward(const Context& c, MlpActivations& saved, BlockScratch& scratch,
                        const std::function<void()>& start_normed) const {
  const bool recomputes = saved.gate_up.empty();
  start_normed();  // beside the first gradients
  if (recomputes) c.tp.finish();
  for_each_tile(c, saved, scratch, [&](Tile& tile) {
    differentiate(c, tile, recomputes);
    if (scratch.is_in_one) {
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

void DenseMlp::backward_term(const Context& c, MlpActivations& saved, BlockScratch& scratch) const {
  for_each_tile(c, saved, scratch, [&](Tile& tile) {
    differentiate(c, tile, saved.gate_up.empty());
    differentiate_input(c, tile);
    add_weight_gradients(c, tile);
  });
}

void DenseMlp::differentiate(const Context& c, Tile& tile, bool recomputes) const {
  if (recomputes) linear_forward(c, gate_up_, tile.gate_up, tile.normed, tile.begin);
  linear_backward_input(c, down_, tile.act, tile.dbranch, tile.begin, &tile.of_down);
  gate_backward(c, tile.act, tile.gate_up);
}

void DenseMlp::differentiate_input(const Context& c, Tile& tile) const {
  linear_backward_input(c, gate_up_, tile.dnormed, tile.gate_up, tile.begin, &tile.of_gate_up);
}

void DenseMlp::add_weight_gradients(const Context& c, Tile& tile) const {
  linear_backward_weight(c, down_, tile.dbranch, tile.act, tile.begin, &tile.of_down);
  linear_backward_weight(c, gate_up_, tile.gate_up, tile.normed, tile.begin, &tile.of_gate_up);
}

}  // namespace sft::model
