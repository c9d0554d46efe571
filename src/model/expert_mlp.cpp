// SPDX-License-Identifier: Apache-2.0
#include "sft/model/expert_mlp.hpp"

#include "sft/model/router_balance.hpp"

namespace sft::model {

namespace {

/// The matrices of a group as those of E experts.
Tensor by_expert(const Tensor& matrices, std::int64_t num_experts) {
  return matrices.view({num_experts, matrices.shape[0] / num_experts, matrices.shape[1]});
}

ops::RouterRule rule_of(const config::Model& model) { return {.normalize = model.norm_topk_prob}; }

/// What a pass works in: views for its tokens but the padding.
struct Pass {
  Pass(const Context& c, MlpActivations& saved, const BlockScratch& scratch)
      : num_tokens(scratch.normed.shape[0] - scratch.num_padding),
        activations(first_tokens(saved.experts, num_tokens)),
        num_experts(c.config.num_experts),
        num_choices(c.config.num_experts_per_tok),
        rows(scratch.experts.rows.rows(0, activations.choices.shape[0])),
        act(scratch.experts.act.rows(0, activations.choices.shape[0])),
        gate_up(activations.gate_up.empty() ? scratch.experts.gate_up.rows(0, activations.choices.shape[0])
                                            : activations.gate_up) {}

  /// rows = the tokens of `in` (T, C), times the router's weights where they are given.
  void gather(const Context& c, const Tensor& in, const ConstTensor& weights = {}) const {
    c.ops.gather_tokens(
        {.out = rows, .in = in, .choices = activations.choices, .weights = weights, .num_choices = num_choices});
  }

  std::int64_t num_tokens;
  ExpertActivations activations;
  std::int64_t num_experts, num_choices;
  Tensor rows, act, gate_up;
};

/// The rows of tokens, and those of padding behind them.
Tensor tokens_of(const Tensor& all, const Pass& pass) { return all.rows(0, pass.num_tokens); }

void zero_padding(const Context& c, const Tensor& all, const Pass& pass) {
  const std::int64_t num_padding = all.shape[0] - pass.num_tokens;
  if (num_padding > 0) c.ops.fill(all.rows(pass.num_tokens, num_padding), 0.0F);
}

/// Chooses the experts of all tokens, and waits until the host knows where their rows begin.
void route(const Context& c, const Pass& pass, const parallel::ParameterGroup& router, const Tensor& normed,
           std::vector<std::int32_t>& host_offsets) {
  const ExpertActivations& a = pass.activations;
  c.ops.matmul({.a = normed, .b = c.units.parameter(router), .c = a.logits, .transpose_b = true});
  c.ops.router_forward(
      {.logits = a.logits, .correction = {}, .experts = a.experts, .weights = a.weights, .rule = rule_of(c.config)});
  c.ops.expert_order({.experts = a.experts,
                      .counts = a.counts,
                      .offsets = a.offsets,
                      .choices = a.choices,
                      .rows = a.rows,
                      .alignment = c.sizes.expert_alignment});
  host_offsets.assign(pass.num_experts + 1, 0);
  c.device.copy(host_offsets.data(), a.offsets.data, a.offsets.size_bytes(), c.ops.stream());
  c.ops.stream().synchronize();
}

}  // namespace

void ExpertMlp::forward(const Context& c, MlpActivations& saved, BlockScratch& scratch) const {
  const Pass pass(c, saved, scratch);
  zero_padding(c, scratch.delta, pass);
  if (pass.num_tokens == 0) return;
  const Tensor normed = tokens_of(scratch.normed, pass);
  const ExpertActivations& a = pass.activations;
  std::vector<std::int32_t>& offsets = saved.experts.host_offsets;
  route(c, pass, p_.router, normed, offsets);
  if (RouterBalance* balance = scratch.balance; balance != nullptr && balance->counts()) {
    c.ops.router_sums({.logits = a.logits,
                       .expert_counts = a.counts,
                       .counts = balance->choices(layer_),
                       .probabilities = balance->probabilities()});
  }
  pass.gather(c, normed);
  c.ops.grouped_matmul({.a = pass.rows,
                        .b = by_expert(c.units.parameter(p_.gate_up), pass.num_experts),
                        .c = pass.gate_up,
                        .offsets = offsets,
                        .transpose_b = true});
  c.ops.swiglu_forward(pass.act, pass.gate_up);
  c.ops.grouped_matmul({.a = pass.act,
                        .b = by_expert(c.units.parameter(p_.down), pass.num_experts),
                        .c = pass.rows,
                        .offsets = offsets,
                        .transpose_b = true});
  c.ops.combine_rows({.out = tokens_of(scratch.delta, pass), .in = pass.rows, .rows = a.rows, .weights = a.weights});
}

void ExpertMlp::backward(const Context& c, MlpActivations& saved, BlockScratch& scratch,
                         const std::function<void()>& start_normed) const {
  const Pass pass(c, saved, scratch);
  const std::int64_t num_all = scratch.normed.shape[0];
  start_normed();
  c.tp.finish();
  if (pass.num_tokens == 0) {
    zero_padding(c, scratch.dnormed, pass);
    c.tp.start_reduce(scratch.dnormed, 0, num_all);
    c.tp.finish();
    return;
  }
  const ExpertActivations& a = pass.activations;
  const ops::ExpertOffsets offsets = saved.experts.host_offsets;
  const Tensor normed = tokens_of(scratch.normed, pass), dnormed = tokens_of(scratch.dnormed, pass);
  const Tensor dbranch = tokens_of(scratch.dbranch, pass);
  const Tensor gate_up_weights = by_expert(c.units.parameter(p_.gate_up), pass.num_experts);
  const Tensor down_weights = by_expert(c.units.parameter(p_.down), pass.num_experts);
  if (a.gate_up.empty()) {
    pass.gather(c, normed);
    c.ops.grouped_matmul(
        {.a = pass.rows, .b = gate_up_weights, .c = pass.gate_up, .offsets = offsets, .transpose_b = true});
  }
  // What experts gave, for the gradients of the weights.
  c.ops.swiglu_forward(pass.act, pass.gate_up);
  c.ops.grouped_matmul({.a = pass.act, .b = down_weights, .c = pass.rows, .offsets = offsets, .transpose_b = true});
  const Tensor dweights = tokens_of(scratch.experts.dweights, pass);
  c.ops.combine_weights_backward({.dweights = dweights, .dout = dbranch, .in = pass.rows, .rows = a.rows});

  pass.gather(c, dbranch, a.weights);
  if (c.units.has_gradient(p_.down)) {
    c.ops.grouped_weight_gradient({.dweight = by_expert(c.units.accumulated_gradient(p_.down), pass.num_experts),
                                   .x = pass.rows,
                                   .y = pass.act,
                                   .offsets = offsets});
  }
  c.ops.grouped_matmul({.a = pass.rows, .b = down_weights, .c = pass.act, .offsets = offsets});
  c.ops.swiglu_backward(pass.gate_up, pass.act, pass.act, pass.gate_up);
  c.ops.grouped_matmul({.a = pass.gate_up, .b = gate_up_weights, .c = pass.rows, .offsets = offsets});
  c.ops.combine_rows({.out = dnormed, .in = pass.rows, .rows = a.rows, .weights = {}});

  const Tensor dlogits = tokens_of(scratch.experts.dlogits, pass);
  c.ops.router_backward(
      {.dlogits = dlogits, .logits = a.logits, .experts = a.experts, .dweights = dweights, .rule = rule_of(c.config)});
  // Ranks of tp have terms of one gradient: one of them adds that of the auxiliary loss.
  if (const RouterBalance* balance = scratch.balance;
      balance != nullptr && balance->factor() != 0 && c.tp.rank() == 0) {
    c.ops.router_sums_backward(
        {.dlogits = dlogits, .logits = a.logits, .counts = balance->all_choices(), .factor = balance->factor()});
  }
  const Tensor rounded = tokens_of(scratch.experts.dlogits_rounded, pass);
  if (rounded.dtype != DType::float32) c.ops.copy(rounded, dlogits);
  c.ops.matmul({.a = rounded, .b = c.units.parameter(p_.router), .c = dnormed, .accumulate = true});
  zero_padding(c, scratch.dnormed, pass);
  c.tp.start_reduce(scratch.dnormed, 0, num_all);  // beside the weight gradients

  if (c.units.has_gradient(p_.gate_up)) {
    pass.gather(c, normed);
    c.ops.grouped_weight_gradient({.dweight = by_expert(c.units.accumulated_gradient(p_.gate_up), pass.num_experts),
                                   .x = pass.gate_up,
                                   .y = pass.rows,
                                   .offsets = offsets});
  }
  if (c.units.has_gradient(p_.router)) {
    const parallel::GradientTarget target = c.units.gradient(p_.router);
    c.ops.matmul({.a = rounded, .b = normed, .c = target.tensor, .transpose_a = true, .accumulate = target.accumulate});
  }
  c.tp.finish();
}

}  // namespace sft::model
