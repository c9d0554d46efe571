// SPDX-License-Identifier: Apache-2.0
#include "model/expert_products.hpp"

namespace sft::model {

namespace {

/// A tensor of all experts of this rank as those of these rows, a row each: of E x N rows, or E x N numbers.
Tensor of_these(const ExpertRows& here, const Tensor& of_all) {
  return of_all.rows(here.first_expert, std::ssize(here.offsets) - 1);
}

Tensor matrices_of(const Context& c, const ExpertRows& here, const Tensor& matrices) {
  const std::int64_t num_experts = c.sizes.local_experts();
  return of_these(here, matrices.view({num_experts, matrices.shape[0] / num_experts, matrices.shape[1]}));
}

Tensor biases_of(const Context& c, const ExpertRows& here, const Tensor& biases) {
  const std::int64_t num_experts = c.sizes.local_experts();
  return of_these(here, biases.view({num_experts, biases.num_elements() / num_experts}));
}

bool is_gpt_oss(const Context& c) { return c.config.expert_form == config::ExpertForm::gpt_oss; }

ops::GateRule gate_of(const config::Model& model) {
  return {.gate = ops::Gate::clamped_swish,
          .alpha = static_cast<float>(model.swiglu_alpha),
          .limit = static_cast<float>(model.swiglu_limit),
          .interleaved = true};
}

/// y = what `layer` gives for x, both by row.
void multiply(const Context& c, const ExpertLinear& layer, const ExpertRows& here, const Tensor& x, const Tensor& y,
              bool has_bias) {
  if (!here.has_rows()) return;
  const bool adds_bias = has_bias && layer.bias.exists();
  c.ops.grouped_matmul({.a = x,
                        .b = matrices_of(c, here, c.units.parameter(layer.weight)),
                        .c = y,
                        .offsets = here.offsets,
                        .transpose_b = !is_gpt_oss(c),
                        .bias = adds_bias ? biases_of(c, here, c.units.parameter(layer.bias)) : Tensor()});
}

/// dx = the gradient of what multiply() reads.
void multiply_back(const Context& c, const ExpertLinear& layer, const ExpertRows& here, const Tensor& dy,
                   const Tensor& dx) {
  c.ops.grouped_matmul({.a = dy,
                        .b = matrices_of(c, here, c.units.parameter(layer.weight)),
                        .c = dx,
                        .offsets = here.offsets,
                        .transpose_b = is_gpt_oss(c)});
}

/// Adds the gradients of the layer, as far as it is trained.
void add_gradients(const Context& c, const ExpertLinear& layer, const ExpertRows& here, const Tensor& dy,
                   const Tensor& x) {
  if (c.units.has_gradient(layer.weight)) {
    c.ops.grouped_weight_gradient({.dweight = matrices_of(c, here, c.units.accumulated_gradient(layer.weight)),
                                   .x = is_gpt_oss(c) ? x : dy,
                                   .y = is_gpt_oss(c) ? dy : x,
                                   .offsets = here.offsets});
  }
  if (layer.bias.exists() && c.units.has_gradient(layer.bias)) {
    c.ops.grouped_bias_gradient(
        {.dbias = biases_of(c, here, c.units.accumulated_gradient(layer.bias)), .dy = dy, .offsets = here.offsets});
  }
}

}  // namespace

void multiply_gate_up(const Context& c, const ExpertParameters& p, const ExpertRows& here) {
  multiply(c, p.gate_up, here, here.rows, here.gate_up, /*has_bias=*/true);
}

void activate(const Context& c, const ExpertRows& here) {
  if (!here.has_rows()) return;
  if (is_gpt_oss(c)) {
    c.ops.gated_forward({.act = here.act, .gate_up = here.gate_up, .rule = gate_of(c.config)});
  } else {
    c.ops.swiglu_forward(here.act, here.gate_up);
  }
}

void multiply_down(const Context& c, const ExpertParameters& p, const ExpertRows& here) {
  multiply(c, p.down, here, here.act, here.rows, /*has_bias=*/c.tp.rank() == 0);
}

void differentiate(const Context& c, const ExpertParameters& p, const ExpertRows& here) {
  if (!here.has_rows()) return;
  add_gradients(c, p.down, here, here.rows, here.act);
  multiply_back(c, p.down, here, here.rows, here.act);
  if (is_gpt_oss(c)) {
    c.ops.gated_backward({.dgate_up = here.gate_up,
                          .act = here.act,
                          .dact = here.act,
                          .gate_up = here.gate_up,
                          .rule = gate_of(c.config)});
  } else {
    c.ops.swiglu_backward(here.gate_up, here.act, here.act, here.gate_up);
  }
  multiply_back(c, p.gate_up, here, here.gate_up, here.rows);
}

void add_gate_up_gradients(const Context& c, const ExpertParameters& p, const ExpertRows& here) {
  if (here.has_rows()) add_gradients(c, p.gate_up, here, here.gate_up, here.rows);
}

}  // namespace sft::model
