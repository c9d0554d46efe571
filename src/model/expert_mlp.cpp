// SPDX-License-Identifier: Apache-2.0
#include "sft/model/expert_mlp.hpp"

#include "sft/model/router_balance.hpp"

namespace sft::model {

namespace {

using Round = parallel::ExpertRoute::Round;

/// The matrices of a group as those of this rank's experts.
Tensor by_expert(const Context& c, const Tensor& matrices) {
  const std::int64_t num_experts = c.sizes.local_experts();
  return matrices.view({num_experts, matrices.shape[0] / num_experts, matrices.shape[1]});
}

/// The biases of a group, likewise; empty where there are none.
Tensor biases_of(const Context& c, const parallel::ParameterGroup& group) {
  if (!group.exists()) return {};
  const std::int64_t num_experts = c.sizes.local_experts();
  const Tensor biases = c.units.parameter(group);
  return biases.view({num_experts, biases.num_elements() / num_experts});
}

bool is_gpt_oss(const Context& c) { return c.config.expert_form == config::ExpertForm::gpt_oss; }

ops::GateRule gate_of(const config::Model& model) {
  return {.gate = ops::Gate::clamped_swish,
          .alpha = static_cast<float>(model.swiglu_alpha),
          .limit = static_cast<float>(model.swiglu_limit),
          .interleaved = true};
}

ops::RouterRule rule_of(const config::Model& model) { return {.normalize = model.norm_topk_prob}; }

/// What a pass works in at home, where the tokens are: views for those but the padding.
struct Pass {
  Pass(const Context& c, MlpActivations& saved, const BlockScratch& scratch)
      : num_tokens(scratch.normed.shape[0] - scratch.num_padding),
        activations(first_tokens(saved.experts, num_tokens)),
        num_choices(c.config.num_experts_per_tok),
        rows(scratch.experts.rows.rows(0, activations.choices.shape[0])) {}

  [[nodiscard]] bool has_tokens() const { return num_tokens > 0; }
  /// rows = the tokens of `in` (T, C), times the router's weights where they are given.
  void gather(const Context& c, const Tensor& in, const ConstTensor& weights = {}) const {
    if (!has_tokens()) return;
    c.ops.gather_tokens(
        {.out = rows, .in = in, .choices = activations.choices, .weights = weights, .num_choices = num_choices});
  }

  std::int64_t num_tokens;
  ExpertActivations activations;
  std::int64_t num_choices;
  Tensor rows;
};

/// What a round works in where the experts are: the rows that arrive there. Products of no rows are left out.
struct Arrived {
  Arrived(const Context& c, const Pass& pass, const BlockScratch& scratch, const Round& round)
      : rows((c.sizes.ep_size == 1 ? pass.rows : scratch.experts.arrived).rows(0, round.num_rows())),
        act(scratch.experts.act.rows(0, round.num_rows())),
        gate_up((pass.activations.gate_up.empty() ? scratch.experts.gate_up : pass.activations.gate_up)
                    .rows(0, round.num_rows())),
        offsets(round.offsets) {}

  [[nodiscard]] bool has_rows() const { return offsets.back() > 0; }

  Tensor rows, act, gate_up;
  ops::ExpertOffsets offsets;
};

/// y = what `layer` gives for x, both by row. Of ranks of tp that have terms of it, one adds the bias.
void multiply(const Context& c, const ExpertLinear& layer, const Tensor& x, const Tensor& y, ops::ExpertOffsets offsets,
              bool is_term) {
  const bool has_bias = !is_term || c.tp.rank() == 0;
  c.ops.grouped_matmul({.a = x,
                        .b = by_expert(c, c.units.parameter(layer.weight)),
                        .c = y,
                        .offsets = offsets,
                        .transpose_b = !is_gpt_oss(c),
                        .bias = has_bias ? biases_of(c, layer.bias) : Tensor()});
}

/// dx = the gradient of what multiply() reads.
void multiply_back(const Context& c, const ExpertLinear& layer, const Tensor& dy, const Tensor& dx,
                   ops::ExpertOffsets offsets) {
  c.ops.grouped_matmul({.a = dy,
                        .b = by_expert(c, c.units.parameter(layer.weight)),
                        .c = dx,
                        .offsets = offsets,
                        .transpose_b = is_gpt_oss(c)});
}

/// Adds the gradients of the layer, as far as it is trained.
void add_gradients(const Context& c, const ExpertLinear& layer, const Tensor& dy, const Tensor& x,
                   ops::ExpertOffsets offsets) {
  if (c.units.has_gradient(layer.weight)) {
    const Tensor dweight = by_expert(c, c.units.accumulated_gradient(layer.weight));
    c.ops.grouped_weight_gradient(
        {.dweight = dweight, .x = is_gpt_oss(c) ? x : dy, .y = is_gpt_oss(c) ? dy : x, .offsets = offsets});
  }
  if (layer.bias.exists() && c.units.has_gradient(layer.bias)) {
    const Tensor dbias = c.units.accumulated_gradient(layer.bias);
    c.ops.grouped_bias_gradient(
        {.dbias = dbias.view({c.sizes.local_experts(), dy.shape[1]}), .dy = dy, .offsets = offsets});
  }
}

void activate(const Context& c, const Tensor& act, const Tensor& gate_up) {
  if (is_gpt_oss(c)) {
    c.ops.gated_forward({.act = act, .gate_up = gate_up, .rule = gate_of(c.config)});
  } else {
    c.ops.swiglu_forward(act, gate_up);
  }
}

/// gate_up becomes its gradient, of that of the activation in act.
void activate_back(const Context& c, const Tensor& act, const Tensor& gate_up) {
  if (is_gpt_oss(c)) {
    c.ops.gated_backward({.dgate_up = gate_up, .act = act, .dact = act, .gate_up = gate_up, .rule = gate_of(c.config)});
  } else {
    c.ops.swiglu_backward(gate_up, act, act, gate_up);
  }
}

/// The rows of tokens, and those of padding behind them.
Tensor tokens_of(const Tensor& all, const Pass& pass) { return all.rows(0, pass.num_tokens); }

void zero_padding(const Context& c, const Tensor& all, const Pass& pass) {
  const std::int64_t num_padding = all.shape[0] - pass.num_tokens;
  if (num_padding > 0) c.ops.fill(all.rows(pass.num_tokens, num_padding), 0.0F);
}

/// Chooses the experts of all tokens.
void choose(const Context& c, const Pass& pass, const ExpertParameters& p, const Tensor& normed) {
  const ExpertActivations& a = pass.activations;
  if (!pass.has_tokens()) return c.device.fill_zero(a.counts.data, a.counts.size_bytes(), c.ops.stream());
  c.ops.matmul({.a = normed,
                .b = c.units.parameter(p.router),
                .c = a.logits,
                .transpose_b = true,
                .bias = p.router_bias.exists() ? c.units.parameter(p.router_bias) : Tensor()});
  c.ops.router_forward(
      {.logits = a.logits, .correction = {}, .experts = a.experts, .weights = a.weights, .rule = rule_of(c.config)});
  c.ops.expert_order({.experts = a.experts,
                      .counts = a.counts,
                      .offsets = a.offsets,
                      .choices = a.choices,
                      .rows = a.rows,
                      .alignment = c.sizes.home_alignment()});
}

}  // namespace

void ExpertMlp::forward(const Context& c, MlpActivations& saved, BlockScratch& scratch) const {
  const Pass pass(c, saved, scratch);
  zero_padding(c, scratch.delta, pass);
  const Tensor normed = tokens_of(scratch.normed, pass);
  const ExpertActivations& a = pass.activations;
  choose(c, pass, p_, normed);
  saved.experts.route =
      c.experts.plan(a.counts, scratch.experts.all_counts, pass.num_tokens * pass.num_choices, c.sizes.expert_memory());
  if (RouterBalance* balance = scratch.balance; balance != nullptr && balance->counts() && pass.has_tokens()) {
    c.ops.router_sums({.logits = a.logits,
                       .expert_counts = a.counts,
                       .counts = balance->choices(layer_),
                       .probabilities = balance->probabilities()});
  }
  pass.gather(c, normed);
  for (const Round& round : saved.experts.route.rounds()) {
    const Arrived here(c, pass, scratch, round);
    c.experts.dispatch(round, pass.rows, here.rows);
    if (here.has_rows()) {
      multiply(c, p_.gate_up, here.rows, here.gate_up, here.offsets, /*is_term=*/false);
      activate(c, here.act, here.gate_up);
      multiply(c, p_.down, here.act, here.rows, here.offsets, /*is_term=*/true);
    }
    c.experts.give_back(round, pass.rows, here.rows);
  }
  if (!pass.has_tokens()) return;
  c.ops.combine_rows({.out = tokens_of(scratch.delta, pass), .in = pass.rows, .rows = a.rows, .weights = a.weights});
}

void ExpertMlp::backward(const Context& c, MlpActivations& saved, BlockScratch& scratch,
                         const std::function<void()>& start_normed) const {
  const Pass pass(c, saved, scratch);
  start_normed();
  c.tp.finish();
  const ExpertActivations& a = pass.activations;
  const Tensor normed = tokens_of(scratch.normed, pass), dnormed = tokens_of(scratch.dnormed, pass);
  const Tensor dbranch = tokens_of(scratch.dbranch, pass), dweights = tokens_of(scratch.experts.dweights, pass);
  const std::vector<Round>& rounds = saved.experts.route.rounds();
  const bool is_one_round = saved.experts.route.is_one_round();  // else none keeps anything for the next
  const auto send = [&](const Round& round, const Arrived& here, const Tensor& tokens, const ConstTensor& weights) {
    pass.gather(c, tokens, weights);
    c.experts.dispatch(round, pass.rows, here.rows);
  };
  const bool is_kept = is_one_round && !a.gate_up.empty();
  const auto compute_activation = [&](const Round& round, const Arrived& here) {  // of pass.rows: the tokens
    if (!is_kept) {
      c.experts.dispatch(round, pass.rows, here.rows);
      if (here.has_rows()) multiply(c, p_.gate_up, here.rows, here.gate_up, here.offsets, /*is_term=*/false);
    }
    if (here.has_rows()) activate(c, here.act, here.gate_up);
  };
  const auto add_gate_up_gradient = [&](const Round& round, const Arrived& here) {
    if (!c.units.has_gradient(p_.gate_up.weight)) return;
    send(round, here, normed, {});
    if (here.has_rows()) add_gradients(c, p_.gate_up, here.gate_up, here.rows, here.offsets);
  };

  // 1. What experts gave, for the gradients of the weights.
  if (!is_kept) pass.gather(c, normed);
  for (const Round& round : rounds) {
    const Arrived here(c, pass, scratch, round);
    compute_activation(round, here);
    if (here.has_rows()) multiply(c, p_.down, here.act, here.rows, here.offsets, /*is_term=*/true);
    c.experts.give_back(round, pass.rows, here.rows);
  }
  if (pass.has_tokens()) {
    c.ops.combine_weights_backward({.dweights = dweights, .dout = dbranch, .in = pass.rows, .rows = a.rows});
  }

  // 2. The gradient through the experts.
  for (const Round& round : rounds) {
    const Arrived here(c, pass, scratch, round);
    if (!is_one_round) {
      pass.gather(c, normed);
      compute_activation(round, here);
    }
    send(round, here, dbranch, a.weights);
    if (here.has_rows()) differentiate(c, here.rows, here.act, here.gate_up, here.offsets);
    if (!is_one_round && pass.has_tokens()) c.ops.fill(pass.rows, 0.0F);  // rows of other rounds add nothing
    c.experts.give_back(round, pass.rows, here.rows);
    if (pass.has_tokens()) {
      c.ops.combine_rows(
          {.out = dnormed, .in = pass.rows, .rows = a.rows, .weights = {}, .accumulate = &round != &rounds.front()});
    }
    if (!is_one_round) add_gate_up_gradient(round, here);
  }

  // 3. That through the router.
  if (pass.has_tokens()) differentiate_router(c, a, scratch, dnormed, dweights);
  zero_padding(c, scratch.dnormed, pass);
  c.tp.start_reduce(scratch.dnormed, 0, scratch.dnormed.shape[0]);  // beside the weight gradients
  if (is_one_round) add_gate_up_gradient(rounds.front(), Arrived(c, pass, scratch, rounds.front()));
  if (c.units.has_gradient(p_.router) && pass.has_tokens()) {
    const Tensor dlogits = tokens_of(scratch.experts.dlogits_rounded, pass);
    const parallel::GradientTarget target = c.units.gradient(p_.router);
    c.ops.matmul({.a = dlogits, .b = normed, .c = target.tensor, .transpose_a = true, .accumulate = target.accumulate});
    if (p_.router_bias.exists()) c.ops.bias_backward(c.units.accumulated_gradient(p_.router_bias), dlogits);
  }
  c.tp.finish();
}

void ExpertMlp::differentiate(const Context& c, const Tensor& rows, const Tensor& act, const Tensor& gate_up,
                              ops::ExpertOffsets offsets) const {
  add_gradients(c, p_.down, rows, act, offsets);
  multiply_back(c, p_.down, rows, act, offsets);
  activate_back(c, act, gate_up);
  multiply_back(c, p_.gate_up, gate_up, rows, offsets);
}

void ExpertMlp::differentiate_router(const Context& c, const ExpertActivations& a, const BlockScratch& scratch,
                                     const Tensor& dnormed, const Tensor& dweights) const {
  const std::int64_t num_tokens = dnormed.shape[0];
  const Tensor dlogits = scratch.experts.dlogits.rows(0, num_tokens);
  c.ops.router_backward(
      {.dlogits = dlogits, .logits = a.logits, .experts = a.experts, .dweights = dweights, .rule = rule_of(c.config)});
  // Ranks of tp have terms of one gradient: one of them adds that of the auxiliary loss.
  if (const RouterBalance* balance = scratch.balance;
      balance != nullptr && balance->factor() != 0 && c.tp.rank() == 0) {
    c.ops.router_sums_backward(
        {.dlogits = dlogits, .logits = a.logits, .counts = balance->all_choices(), .factor = balance->factor()});
  }
  const Tensor rounded = scratch.experts.dlogits_rounded.rows(0, num_tokens);
  if (rounded.dtype != DType::float32) c.ops.copy(rounded, dlogits);
  c.ops.matmul({.a = rounded, .b = c.units.parameter(p_.router), .c = dnormed, .accumulate = true});
}

}  // namespace sft::model
