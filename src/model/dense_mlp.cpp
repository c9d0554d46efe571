// SPDX-License-Identifier: Apache-2.0
#include "sft/model/dense_mlp.hpp"

#include <algorithm>
#include <cstdint>

#include "sft/model/linear.hpp"

namespace sft::model {

namespace {

/// Calls work(begin, count) for the tiles of the MLP, in order.
template <class Work>
void for_each_tile(const BlockScratch& scratch, const Work& work) {
  const std::int64_t num_tokens = scratch.normed.shape[0], tile_tokens = scratch.act.shape[0];
  for (std::int64_t begin = 0; begin < num_tokens; begin += tile_tokens) {
    work(begin, std::min(tile_tokens, num_tokens - begin));
  }
}

/// Gate and up of a tile: rows of what the block keeps, or the memory that all tiles share.
Tensor gate_up_of(const MlpActivations& saved, const BlockScratch& scratch, std::int64_t begin, std::int64_t count) {
  return saved.gate_up.empty() ? scratch.gate_up.rows(0, count) : saved.gate_up.rows(begin, count);
}

bool is_swiglu(const Context& c) { return c.config.hidden_act == config::Activation::silu; }

void gate_forward(const Context& c, const Tensor& act, const Tensor& gate_up) {
  if (is_swiglu(c)) return c.ops.swiglu_forward(act, gate_up);
  c.ops.gated_forward({.act = act, .gate_up = gate_up, .rule = {.gate = ops::Gate::gelu_tanh}});
}

/// In place: act, its gradient before, and the gradient of gate_up.
void gate_backward(const Context& c, const Tensor& act, const Tensor& gate_up) {
  if (is_swiglu(c)) return c.ops.swiglu_backward(gate_up, act, act, gate_up);
  c.ops.gated_backward(
      {.dgate_up = gate_up, .act = act, .dact = act, .gate_up = gate_up, .rule = {.gate = ops::Gate::gelu_tanh}});
}

}  // namespace

void DenseMlp::forward(const Context& c, MlpActivations& saved, BlockScratch& scratch) const {
  prepare_magnitudes(c, gate_up_);
  prepare_magnitudes(c, down_);
  for_each_tile(scratch, [&](std::int64_t begin, std::int64_t count) {
    const Tensor gate_up = gate_up_of(saved, scratch, begin, count), act = scratch.act.rows(0, count);
    linear_forward(c, gate_up_, gate_up, scratch.normed.rows(begin, count), begin);
    gate_forward(c, act, gate_up);
    linear_forward_partial(c, down_, scratch.delta.rows(begin, count), act, begin);
  });
}

void DenseMlp::backward(const Context& c, MlpActivations& saved, BlockScratch& scratch,
                        const std::function<void()>& start_normed) const {
  const bool recomputes = saved.gate_up.empty();
  start_normed();  // beside the first gradients
  if (recomputes) c.tp.finish();
  for_each_tile(scratch, [&](std::int64_t begin, std::int64_t count) {
    const Tensor gate_up = gate_up_of(saved, scratch, begin, count), act = scratch.act.rows(0, count);
    const Tensor normed = scratch.normed.rows(begin, count), dnormed = scratch.dnormed.rows(begin, count);
    const Tensor dbranch = scratch.dbranch.rows(begin, count);
    if (recomputes) linear_forward(c, gate_up_, gate_up, normed, begin);
    linear_backward_input(c, down_, act, dbranch, begin);
    gate_backward(c, act, gate_up);
    linear_backward_input(c, gate_up_, dnormed, gate_up, begin);
    c.tp.finish();
    c.tp.start_reduce(scratch.dnormed, begin, count);  // beside the weight gradients
    linear_backward_weight(c, down_, dbranch, act, begin);
    linear_backward_weight(c, gate_up_, gate_up, normed, begin);
    c.tp.finish();
  });
}

}  // namespace sft::model
