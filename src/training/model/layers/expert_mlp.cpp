// SPDX-License-Identifier: Apache-2.0
#include "sft/model/layers/expert_mlp.hpp"

#include <algorithm>
#include <any>
#include <cstdint>

#include "model/layers/expert_parameters.hpp"
#include "model/layers/expert_products.hpp"
#include "model/layers/expert_tensors.hpp"
#include "model/layers/gated_mlp.hpp"
#include "sft/core/ensure.hpp"
#include "sft/model/linear/fp8_buffers.hpp"
#include "sft/model/router_balance.hpp"

namespace sft::model {

namespace {

using Piece = parallel::ExpertRoute::Piece;
using Round = parallel::ExpertRoute::Round;

ops::RouterRule rule_of(const config::Model& model) {
  const bool is_sigmoid = model.scoring_func == config::ScoringFunc::sigmoid;
  return {.score = is_sigmoid ? ops::RouterScore::sigmoid : ops::RouterScore::softmax,
          .normalize = model.norm_topk_prob,
          .scale = static_cast<float>(model.routed_scaling_factor),
          .num_groups = model.n_group,
          .chosen_groups = model.topk_group};
}

/// What a pass works in at home, where the tokens are: views for those but the padding.
struct Pass {
  Pass(const Context& c, const SublayerTensors& all, const BlockScratch& scratch)
      : num_tokens(scratch.normed.shape[0] - scratch.num_padding),
        own(all),
        decisions(ExpertDecisions(all).first_tokens(num_tokens)),
        all_logits(all["logits"].rows(0, scratch.normed.shape[0])),
        num_choices(c.config.num_experts_per_tok),
        rows(own.rows.rows(0, decisions.choices.shape[0])) {}

  [[nodiscard]] bool has_tokens() const { return num_tokens > 0; }
  /// rows = the tokens of `in` (T, C), times the router's weights where they are given.
  void gather(const Context& c, const Tensor& in, const ConstTensor& weights = {}) const {
    if (!has_tokens()) return;
    c.ops.run(ops::GatherTokens{
        .out = rows, .in = in, .choices = decisions.choices, .weights = weights, .num_choices = num_choices});
  }

  std::int64_t num_tokens;
  ExpertTensors own;
  ExpertDecisions decisions;
  Tensor all_logits;  ///< of padding too: micro-batches have fewer different lengths with it
  std::int64_t num_choices;
  Tensor rows;
};

/// Where rows lie that arrive at this rank's experts.
const Tensor& arrived_rows(const Context& c, const Pass& pass) {
  return c.sizes.experts.ep_size == 1 ? pass.rows : pass.own.arrived;
}

/// Memory for codes of a piece, number `p` of its round, in that of its activations; none where none are kept.
Fp8Memory codes_of(const Context& c, const ExpertTensors& own, const Piece& piece, std::int64_t p) {
  if (!c.sizes.experts.keeps_codes) return {};
  const std::int64_t next_row = piece.first_row + piece.num_rows(),
                     next_expert = piece.first_expert + piece.num_experts();
  const std::int64_t begin = c.sizes.experts.act_begin(piece.first_row, piece.first_expert, p),
                     end = c.sizes.experts.act_begin(next_row, next_expert, p + 1);
  const Tensor act = own.act.rows(begin, end - begin);
  return {.codes = Tensor(act.data, DType::uint8, {static_cast<std::int64_t>(act.size_bytes())}),
          .scales = c.fp8->expert_scales(piece.first_row, piece.num_rows(), piece.first_expert, piece.num_experts())};
}

/// What a piece of a round, its number `p`, works in where the experts are.
ExpertRows rows_of(const Context& c, const Pass& pass, const Piece& piece, std::int64_t p) {
  const ExpertTensors& own = pass.own;
  const std::int64_t act_begin = c.sizes.experts.act_begin(piece.first_row, piece.first_expert, p);
  return {.rows = arrived_rows(c, pass).rows(piece.first_row, piece.num_rows()),
          .act = own.act.rows(act_begin, piece.num_rows()),
          .gate_up = own.gate_up.rows(piece.first_row, piece.num_rows()),
          .low = own.low,
          .low_grad = own.low_grad,
          .codes = codes_of(c, own, piece, p),
          .offsets = piece.offsets,
          .first_expert = piece.first_expert};
}

/// The rows of tokens, and those of padding behind them.
Tensor tokens_of(const Tensor& all, const Pass& pass) { return all.rows(0, pass.num_tokens); }

const parallel::ExpertRoute& route_of(const SublayerTensors& own) {
  return std::any_cast<const parallel::ExpertRoute&>(own.on_host);
}

void zero_padding(const Context& c, const Tensor& all, const Pass& pass) {
  const std::int64_t num_padding = all.shape[0] - pass.num_tokens;
  if (num_padding > 0) c.ops.run(ops::Fill{all.rows(pass.num_tokens, num_padding), 0.0F});
}

/// Chooses the experts of all tokens; `normed` are those of padding too.
void choose(const Context& c, const Pass& pass, const ExpertParameters& p, const Tensor& normed) {
  const ExpertDecisions& a = pass.decisions;
  if (!pass.has_tokens()) return c.device.fill_zero(a.counts.data, a.counts.size_bytes(), c.ops.stream());
  c.ops.run(ops::Matmul{.a = normed,
                        .b = c.units.parameter(p.router),
                        .c = pass.all_logits,
                        .transpose_b = true,
                        .bias = p.router_bias.exists() ? c.units.parameter(p.router_bias) : Tensor()});
  c.ops.run(ops::RouterForward{.logits = a.logits,
                               .correction = p.correction.exists() ? c.units.parameter(p.correction) : Tensor(),
                               .experts = a.experts,
                               .weights = a.weights,
                               .rule = rule_of(c.config)});
  c.ops.run(ops::ExpertOrder{.experts = a.experts,
                             .counts = a.counts,
                             .offsets = a.offsets,
                             .choices = a.choices,
                             .rows = a.rows,
                             .alignment = c.sizes.experts.home_alignment()});
}

}  // namespace

ExpertMlp::ExpertMlp(UnitBuilder& unit, const config::Model& m, const LayerPlan& plan, const std::string& path)
    : p_(declare_experts(unit, m, path)),
      layer_(plan.expert_layer),
      is_gpt_oss_(m.expert_form == config::ExpertForm::gpt_oss),
      weights_of_token_(
          static_cast<double>(m.hidden_size * (m.num_experts + 3 * m.moe_intermediate_size * m.num_experts_per_tok))) {
  if (m.n_shared_experts > 0) {
    linears_ = declare_gated_mlp(unit, m, path + ".shared_experts", m.shared_intermediate_size());
  }
}

std::vector<SublayerTensor> ExpertMlp::tensors(const Sizes& sizes, const ActivationPolicy& policy) const {
  std::vector<SublayerTensor> all = expert_tensors(sizes, policy);
  if (!has_shared()) return all;
  const std::vector<SublayerTensor> shared = gated_mlp_tensors(sizes, policy, linears_, /*turn=*/1);
  all.insert(all.end(), shared.begin(), shared.end());
  return all;
}

std::int64_t ExpertMlp::pass_tokens(const Sizes& sizes, const ActivationPolicy& policy) const {
  return gated_mlp_tile_tokens(sizes, policy);
}

void ExpertMlp::fit_shapes(const Sizes& sizes, ops::Shapes& shapes) const {
  shapes.mlp = std::max(shapes.mlp, sizes.experts.columns);
  if (has_shared()) shapes.mlp = std::max(shapes.mlp, linears_[1].columns_in(sizes.tp_size));
}

void ExpertMlp::fit_fp8(const Sizes& sizes, const ActivationPolicy& policy, Fp8Buffers& buffers) const {
  Sublayer::fit_fp8(sizes, policy, buffers);
  // Matrices of gpt-oss are (columns in, columns), and so are their gradients, whose operands trade places.
  buffers.fit_experts(sizes, /*trades_places=*/is_gpt_oss_);
}

double ExpertMlp::matmul_weights() const { return Sublayer::matmul_weights() + weights_of_token_; }

void ExpertMlp::forward(const Context& c, SublayerTensors& own, BlockScratch& scratch) const {
  timed(c, "MLP forward", [&] { compute(c, own, scratch); });
}

void ExpertMlp::recompute(const Context& /*context*/, const ActivationPolicy& /*policy*/, SublayerTensors& /*own*/,
                          BlockScratch& /*scratch*/, const std::function<void()>& /*read_normed*/,
                          bool gives_delta) const {
  SFT_ENSURE(!gives_delta, "a layer with experts is the last of its block: its choices are counted once");
}

void ExpertMlp::backward(const Context& c, SublayerTensors& own, BlockScratch& scratch,
                         const std::function<void()>& start_normed) const {
  timed(c, "MLP backward", [&] { differentiate(c, own, scratch, start_normed); });
}

void ExpertMlp::compute(const Context& c, SublayerTensors& own, BlockScratch& scratch) const {
  if (has_shared()) GatedMlp(linears_, own).forward(c, scratch);
  const Pass pass(c, own, scratch);
  if (!has_shared()) zero_padding(c, scratch.delta, pass);
  const Tensor normed = tokens_of(scratch.normed, pass);
  const ExpertDecisions& a = pass.decisions;
  choose(c, pass, p_, scratch.normed);
  own.on_host =
      c.experts.plan(a.counts, pass.own.all_counts, pass.num_tokens * pass.num_choices, c.sizes.experts.memory());
  if (RouterBalance* balance = scratch.balance; balance != nullptr && balance->counts() && pass.has_tokens()) {
    c.ops.run(ops::RouterSums{.logits = a.logits,
                              .expert_counts = a.counts,
                              .counts = balance->choices(layer_),
                              .probabilities = balance->probabilities()});
  }
  pass.gather(c, normed);
  const Tensor& arrived = arrived_rows(c, pass);
  for (const Round& round : route_of(own).rounds()) {
    c.experts.start_dispatch(round, pass.rows, arrived);
    for (std::int64_t p = 0; p < std::ssize(round.pieces); ++p) {
      const ExpertRows here = rows_of(c, pass, round.pieces[p], p);
      c.experts.finish_dispatch(p);
      multiply_gate_up(c, p_, here);
      activate(c, here);
      multiply_down(c, p_, here);
      c.experts.start_give_back(round.pieces[p], pass.rows, arrived);
    }
    c.experts.finish_give_back();
  }
  if (!pass.has_tokens()) return;
  c.ops.run(ops::CombineRows{.out = tokens_of(scratch.delta, pass),
                             .in = pass.rows,
                             .rows = a.rows,
                             .weights = a.weights,
                             .accumulate = has_shared()});
}

void ExpertMlp::differentiate(const Context& c, SublayerTensors& own, BlockScratch& scratch,
                              const std::function<void()>& start_normed) const {
  const Pass pass(c, own, scratch);
  start_normed();
  c.tp.finish();
  if (has_shared()) GatedMlp(linears_, own).backward_term(c, scratch);
  const ExpertDecisions& a = pass.decisions;
  const Tensor normed = tokens_of(scratch.normed, pass), dnormed = tokens_of(scratch.dnormed, pass);
  const Tensor dbranch = tokens_of(scratch.dbranch, pass), dweights = tokens_of(pass.own.dweights, pass);
  const std::vector<Round>& rounds = route_of(own).rounds();
  const bool is_one_round = route_of(own).is_one_round();  // else none keeps anything for the next
  const bool is_kept = is_one_round && pass.own.keeps_gate_up;
  const Tensor& arrived = arrived_rows(c, pass);
  // work(its place, what it works in) for each piece, as they arrive.
  const auto for_each_piece = [&](const Round& round, const auto& work) {
    for (std::int64_t p = 0; p < std::ssize(round.pieces); ++p) {
      c.experts.finish_dispatch(p);
      work(round.pieces[p], rows_of(c, pass, round.pieces[p], p));
    }
  };
  const auto start_tokens = [&](const Round& round) {
    pass.gather(c, normed);
    c.experts.start_dispatch(round, pass.rows, arrived);
  };
  const auto compute_activation = [&](const ExpertRows& here) {
    if (!is_kept) multiply_gate_up(c, p_, here);
    activate(c, here);
  };
  const bool has_gate_up_gradient = c.units.has_gradient(p_.gate_up.weight) || p_.gate_up.adapter.exists();
  const auto add_gate_up_gradient = [&](const Piece& /*piece*/, const ExpertRows& here) {
    add_gate_up_gradients(c, p_, here);
  };

  // 1. What experts gave, for the gradients of the weights.
  if (!is_kept) pass.gather(c, normed);
  for (const Round& round : rounds) {
    if (!is_kept) c.experts.start_dispatch(round, pass.rows, arrived);
    for_each_piece(round, [&](const Piece& piece, const ExpertRows& here) {
      compute_activation(here);
      multiply_down(c, p_, here);
      c.experts.start_give_back(piece, pass.rows, arrived);
    });
    c.experts.finish_give_back();
  }
  if (pass.has_tokens()) {
    c.ops.run(ops::CombineWeightsBackward{.dweights = dweights, .dout = dbranch, .in = pass.rows, .rows = a.rows});
  }

  // 2. The gradient through the experts.
  for (const Round& round : rounds) {
    if (!is_one_round) {
      start_tokens(round);
      for_each_piece(round, [&](const Piece& /*piece*/, const ExpertRows& here) { compute_activation(here); });
    }
    pass.gather(c, dbranch, a.weights);
    c.experts.start_dispatch(round, pass.rows, arrived);
    if (!is_one_round && pass.has_tokens()) {
      c.experts.finish_dispatch(round.pieces.size() - 1);
      c.ops.run(ops::Fill{pass.rows, 0.0F});  // rows of other rounds add nothing
    }
    for_each_piece(round, [&](const Piece& piece, const ExpertRows& here) {
      model::differentiate(c, p_, here);
      c.experts.start_give_back(piece, pass.rows, arrived);
    });
    c.experts.finish_give_back();
    if (pass.has_tokens()) {
      c.ops.run(ops::CombineRows{.out = dnormed,
                                 .in = pass.rows,
                                 .rows = a.rows,
                                 .weights = {},
                                 .accumulate = has_shared() || &round != &rounds.front()});
    }
    if (!has_gate_up_gradient) continue;
    start_tokens(round);
    if (!is_one_round) for_each_piece(round, add_gate_up_gradient);
  }

  // 3. That through the router, beside the tokens of the only round.
  if (!has_shared()) zero_padding(c, scratch.dnormed, pass);
  if (pass.has_tokens()) differentiate_router(c, a, pass.own, scratch);
  c.tp.start_reduce(scratch.dnormed, 0, scratch.dnormed.shape[0]);  // beside the weight gradients
  if (has_gate_up_gradient && is_one_round) for_each_piece(rounds.front(), add_gate_up_gradient);
  if (c.units.has_gradient(p_.router) && pass.has_tokens()) {
    const Tensor dlogits = pass.own.dlogits_rounded.rows(0, scratch.normed.shape[0]);  // of padding: zero
    const parallel::GradientTarget target = c.units.gradient(p_.router);
    c.ops.run(ops::Matmul{
        .a = dlogits, .b = scratch.normed, .c = target.tensor, .transpose_a = true, .accumulate = target.accumulate});
    if (p_.router_bias.exists()) c.ops.run(ops::BiasBackward{c.units.accumulated_gradient(p_.router_bias), dlogits});
  }
  c.tp.finish();
}

void ExpertMlp::differentiate_router(const Context& c, const ExpertDecisions& a, const ExpertTensors& own,
                                     const BlockScratch& scratch) const {
  const std::int64_t num_tokens = a.logits.shape[0], num_rows = scratch.dnormed.shape[0];
  const Tensor dlogits = own.dlogits.rows(0, num_tokens);
  c.ops.run(ops::RouterBackward{.dlogits = dlogits,
                                .logits = a.logits,
                                .experts = a.experts,
                                .dweights = own.dweights.rows(0, num_tokens),
                                .rule = rule_of(c.config)});
  // Ranks of tp have terms of one gradient: one of them adds that of the auxiliary loss.
  if (const RouterBalance* balance = scratch.balance;
      balance != nullptr && balance->factor() != 0 && c.tp.rank() == 0) {
    c.ops.run(ops::RouterSumsBackward{
        .dlogits = dlogits, .logits = a.logits, .counts = balance->all_choices(), .factor = balance->factor()});
  }
  const Tensor rounded = own.dlogits_rounded.rows(0, num_rows);
  if (rounded.dtype != DType::float32) c.ops.run(ops::Copy{rounded.rows(0, num_tokens), dlogits});
  if (num_rows > num_tokens) c.ops.run(ops::Fill{rounded.rows(num_tokens, num_rows - num_tokens), 0.0F});
  c.ops.run(ops::Matmul{.a = rounded, .b = c.units.parameter(p_.router), .c = scratch.dnormed, .accumulate = true});
}

}  // namespace sft::model
