// SPDX-License-Identifier: Apache-2.0
#include "model/layers/expert_products.hpp"

#include "model/linear/fp8_products.hpp"

namespace sft::model {

namespace {

/// A tensor of all experts of this rank as those of these rows, a row each: of E x N rows, or E x N numbers.
Tensor of_these(const ExpertRows& here, const Tensor& of_all) {
  return of_all.rows(here.first_expert, std::ssize(here.offsets) - 1);
}

Tensor matrices_of(const Context& c, const ExpertRows& here, const Tensor& matrices) {
  const std::int64_t num_experts = c.sizes.experts.local_count();
  return of_these(here, matrices.view({num_experts, matrices.shape[0] / num_experts, matrices.shape[1]}));
}

Tensor biases_of(const Context& c, const ExpertRows& here, const Tensor& biases) {
  const std::int64_t num_experts = c.sizes.experts.local_count();
  return of_these(here, biases.view({num_experts, biases.num_elements() / num_experts}));
}

bool is_gpt_oss(const Context& c) { return c.config.expert_form == config::ExpertForm::gpt_oss; }

ops::GateRule gate_of_experts(const config::Model& model) {
  if (model.expert_form != config::ExpertForm::gpt_oss) return {.gate = ops::Gate::silu};
  return {.gate = ops::Gate::clamped_swish,
          .alpha = static_cast<float>(model.swiglu_alpha),
          .limit = static_cast<float>(model.swiglu_limit),
          .interleaved = true};
}

/// One of these experts, which has rows.
struct OneExpert {
  std::int64_t number, begin, count;  ///< among these, and where its rows lie
};

/// Calls work(expert) for those that have rows: in fp8 each has scales of its own.
template <class Work>
void for_each_expert(const ExpertRows& here, const Work& work) {
  for (std::int64_t e = 0; e + 1 < std::ssize(here.offsets); ++e) {
    const std::int64_t begin = here.offsets[e], count = here.offsets[e + 1] - begin;
    if (count > 0) work(OneExpert{e, begin, count});
  }
}

/// In fp8, the product of an expert's rows; see multiply_grouped and multiply_in_fp8.
void multiply_one(const Context& c, const ExpertRows& here, const OneExpert& one, const ops::GroupedMatmul& grouped,
                  Fp8Operand a, const parallel::ParameterGroup& weights, GradientCodes* codes) {
  const ConstTensor &b = grouped.b, &bias = grouped.bias;
  const Tensor scales = c.units.fp8_scales(weights);
  multiply_in_fp8(c,
                  {.a = grouped.a.rows(one.begin, one.count),
                   .b = b.rows(one.number, 1).view({b.shape[1], b.shape[2]}),
                   .c = grouped.c.rows(one.begin, one.count),
                   .transpose_b = grouped.transpose_b,
                   .bias = bias.empty() ? ConstTensor() : bias.rows(one.number, 1).view({bias.shape[1]})},
                  a, Fp8Operand::weight, scales.empty() ? Tensor() : of_these(here, scales).rows(one.number, 1), codes);
}

/// The product with the experts' weights, those of `weights`; `a` says what its rows are.
void multiply_grouped(const Context& c, const ExpertRows& here, const ops::GroupedMatmul& grouped, Fp8Operand a,
                      const parallel::ParameterGroup& weights) {
  if (c.fp8 == nullptr) return c.ops.run(grouped);
  for_each_expert(here, [&](const OneExpert& one) { multiply_one(c, here, one, grouped, a, weights, nullptr); });
}

/// What is kept of the gradient of gate_up of each of these experts, asked for in their order: the same memory every
/// time.
class CodesOfExperts {
 public:
  CodesOfExperts(const Context& c, const ExpertRows& here) : left_(here.codes), tiles_(c.fp8->vectors()) {}

  /// Of the next expert, (lines, terms); without memory where it does not fit.
  Fp8Memory next(std::int64_t lines, std::int64_t terms) {
    if (!left_.fits(lines, terms, tiles_)) return {};
    const auto [scale_rows, scale_columns] = ops::fp8_scale_shape(tiles_, lines, terms);
    const std::int64_t num_scales = tiles_ == ops::Fp8Tiles::whole ? 1 : round_up(scale_rows * scale_columns, 4);
    return {.codes = front(left_.codes, ops::num_fp8_codes(lines, terms)), .scales = front(left_.scales, num_scales)};
  }

 private:
  /// The first elements of what is left.
  static Tensor front(Tensor& left, std::int64_t count) {
    const Tensor taken = left.rows(0, count);
    left = left.rows(count, left.num_elements() - count);
    return taken;
  }

  Fp8Memory left_;
  ops::Fp8Tiles tiles_;
};

/// An adapter's matrices, and the product in its middle of the rows of a call, or its gradient.
struct LowRank {
  LowRank(const Context& c, const ExpertAdapter& adapter, const ExpertRows& here)
      : a(matrices_of(c, here, c.units.parameter(adapter.a))),
        b(matrices_of(c, here, c.units.parameter(adapter.b))),
        rows(here.offsets.back()) {}

  [[nodiscard]] Tensor in(const Tensor& memory) const {
    return memory.rows(0, rows * a.shape[1]).view({rows, a.shape[1]});
  }

  Tensor a, b;
  std::int64_t rows;
};

/// scale a x (R, r) of x (R, K).
Tensor low_of(const Context& c, const ExpertAdapter& adapter, const ExpertRows& here, const Tensor& x) {
  const LowRank own(c, adapter, here);
  const Tensor low = own.in(here.low);
  c.ops.run(
      ops::GroupedMatmul{.a = x.rows(0, own.rows), .b = own.a, .c = low, .offsets = here.offsets, .transpose_b = true});
  c.ops.run(ops::Scale{low, adapter.scale});
  return low;
}

/// The gradient of a x: scale b^T dy (R, r) of dy (R, N).
Tensor low_gradient(const Context& c, const ExpertAdapter& adapter, const ExpertRows& here, const Tensor& dy) {
  const LowRank own(c, adapter, here);
  const Tensor low = own.in(here.low_grad);
  c.ops.run(ops::GroupedMatmul{.a = dy.rows(0, own.rows), .b = own.b, .c = low, .offsets = here.offsets});
  c.ops.run(ops::Scale{low, adapter.scale});
  return low;
}

/// y = what `layer` gives for x, both by row.
void multiply(const Context& c, const ExpertLinear& layer, const ExpertRows& here, const Tensor& x, const Tensor& y,
              bool has_bias) {
  if (!here.has_rows()) return;
  const bool adds_bias = has_bias && layer.bias.exists();
  multiply_grouped(c, here,
                   {.a = x,
                    .b = matrices_of(c, here, c.units.parameter(layer.weight)),
                    .c = y,
                    .offsets = here.offsets,
                    .transpose_b = !is_gpt_oss(c),
                    .bias = adds_bias ? biases_of(c, here, c.units.parameter(layer.bias)) : Tensor()},
                   Fp8Operand::activation, layer.weight);
  if (!layer.adapter.exists()) return;
  const LowRank own(c, layer.adapter, here);
  c.ops.run(ops::GroupedMatmul{.a = low_of(c, layer.adapter, here, x),
                               .b = own.b,
                               .c = y.rows(0, own.rows),
                               .offsets = here.offsets,
                               .transpose_b = true,
                               .accumulate = true});
}

/// The product of dy that is dx.
ops::GroupedMatmul product_back(const Context& c, const ExpertLinear& layer, const ExpertRows& here, const Tensor& dy,
                                const Tensor& dx) {
  return {.a = dy,
          .b = matrices_of(c, here, c.units.parameter(layer.weight)),
          .c = dx,
          .offsets = here.offsets,
          .transpose_b = is_gpt_oss(c)};
}

/// dx = the gradient of what multiply() reads.
void multiply_back(const Context& c, const ExpertLinear& layer, const ExpertRows& here, const Tensor& dy,
                   const Tensor& dx) {
  multiply_grouped(c, here, product_back(c, layer, here, dy, dx), Fp8Operand::gradient, layer.weight);
  if (!layer.adapter.exists()) return;
  const LowRank own(c, layer.adapter, here);
  c.ops.run(ops::GroupedMatmul{.a = low_gradient(c, layer.adapter, here, dy),
                               .b = own.a,
                               .c = dx.rows(0, own.rows),
                               .offsets = here.offsets,
                               .accumulate = true});
}

/// Adds the gradients of the matrices of the layer: dy^T x, or x^T dy where matrices are (columns in, columns).
ops::GroupedWeightGradient product_of_weights(const Context& c, const ExpertLinear& layer, const ExpertRows& here,
                                              const Tensor& dy, const Tensor& x) {
  const bool x_first = is_gpt_oss(c);
  return {.dweight = matrices_of(c, here, c.units.accumulated_gradient(layer.weight)),
          .x = x_first ? x : dy,
          .y = x_first ? dy : x,
          .offsets = here.offsets};
}

/// In fp8, that of an expert; see multiply_in_fp8.
void add_weight_gradient(const Context& c, const OneExpert& one, const ops::GroupedWeightGradient& grouped,
                         GradientCodes* codes) {
  const Tensor& dweight = grouped.dweight;
  const bool x_first = is_gpt_oss(c);
  multiply_in_fp8(c,
                  {.a = grouped.x.rows(one.begin, one.count),
                   .b = grouped.y.rows(one.begin, one.count),
                   .c = dweight.rows(one.number, 1).view({dweight.shape[1], dweight.shape[2]}),
                   .transpose_a = true,
                   .accumulate = true},
                  x_first ? Fp8Operand::activation : Fp8Operand::gradient,
                  x_first ? Fp8Operand::gradient : Fp8Operand::activation, {}, codes);
}

void add_bias_gradients(const Context& c, const ExpertLinear& layer, const ExpertRows& here, const Tensor& dy) {
  if (!layer.bias.exists() || !c.units.has_gradient(layer.bias)) return;
  c.ops.run(ops::GroupedBiasGradient{
      .dbias = biases_of(c, here, c.units.accumulated_gradient(layer.bias)), .dy = dy, .offsets = here.offsets});
}

/// Adds the gradients of both matrices of the layer's adapters.
void add_adapter_gradients(const Context& c, const ExpertAdapter& adapter, const ExpertRows& here, const Tensor& dy,
                           const Tensor& x) {
  const std::int64_t num_rows = here.offsets.back();
  c.ops.run(ops::GroupedWeightGradient{.dweight = matrices_of(c, here, c.units.accumulated_gradient(adapter.b)),
                                       .x = dy.rows(0, num_rows),
                                       .y = low_of(c, adapter, here, x),
                                       .offsets = here.offsets});
  c.ops.run(ops::GroupedWeightGradient{.dweight = matrices_of(c, here, c.units.accumulated_gradient(adapter.a)),
                                       .x = low_gradient(c, adapter, here, dy),
                                       .y = x.rows(0, num_rows),
                                       .offsets = here.offsets});
}

/// Adds the gradients of the layer, as far as it is trained.
void add_gradients(const Context& c, const ExpertLinear& layer, const ExpertRows& here, const Tensor& dy,
                   const Tensor& x) {
  if (c.units.has_gradient(layer.weight)) {
    c.ops.run(product_of_weights(c, layer, here, dy, x));
  }
  add_bias_gradients(c, layer, here, dy);
  if (layer.adapter.exists()) add_adapter_gradients(c, layer.adapter, here, dy, x);
}

/// Whether dy goes into two products in fp8, for which it is rounded once. Adapters train no weights in fp8.
bool rounds_for_both(const Context& c, const ExpertLinear& layer) {
  return c.fp8 != nullptr && c.units.has_gradient(layer.weight);
}

/// In fp8: adds the gradients of `down`, expert by expert before dx takes the place of x. An expert with more rows than
/// there is memory for, which only ranks of ep can give it, has dy rounded for each product.
void differentiate_down_in_fp8(const Context& c, const ExpertLinear& down, const ExpertRows& here) {
  const Tensor &dy = here.rows, &x = here.act, &dx = here.act;
  add_bias_gradients(c, down, here, dy);
  const ops::GroupedWeightGradient weights = product_of_weights(c, down, here, dy, x);
  const ops::GroupedMatmul back = product_back(c, down, here, dy, dx);
  for_each_expert(here, [&](const OneExpert& one) {
    GradientCodes codes = gradient_codes(c, LayerOfTwo::second);
    GradientCodes* const both = codes.memory.fits(one.count, dy.shape[1], c.fp8->vectors()) ? &codes : nullptr;
    add_weight_gradient(c, one, weights, both);
    multiply_one(c, here, one, back, Fp8Operand::gradient, down.weight, both);
  });
}

/// In fp8: dx of gate_up, and what its weight gradient will read.
void multiply_gate_up_back_in_fp8(const Context& c, const ExpertLinear& gate_up, const ExpertRows& here) {
  const ops::GroupedMatmul back = product_back(c, gate_up, here, here.gate_up, here.rows);
  CodesOfExperts all_codes(c, here);
  for_each_expert(here, [&](const OneExpert& one) {
    GradientCodes codes{.memory = all_codes.next(here.gate_up.shape[1], one.count)};
    multiply_one(c, here, one, back, Fp8Operand::gradient, gate_up.weight,
                 codes.memory.codes.empty() ? nullptr : &codes);
  });
}

/// In fp8, behind multiply_gate_up_back_in_fp8.
void add_gate_up_gradients_in_fp8(const Context& c, const ExpertLinear& gate_up, const ExpertRows& here) {
  const ops::GroupedWeightGradient weights = product_of_weights(c, gate_up, here, here.gate_up, here.rows);
  CodesOfExperts all_codes(c, here);
  for_each_expert(here, [&](const OneExpert& one) {
    GradientCodes codes{.memory = all_codes.next(here.gate_up.shape[1], one.count), .are_kept = true};
    add_weight_gradient(c, one, weights, codes.memory.codes.empty() ? nullptr : &codes);
  });
  add_bias_gradients(c, gate_up, here, here.gate_up);
}

}  // namespace

void multiply_gate_up(const Context& c, const ExpertParameters& p, const ExpertRows& here) {
  multiply(c, p.gate_up, here, here.rows, here.gate_up, /*has_bias=*/true);
}

void activate(const Context& c, const ExpertRows& here) {
  if (!here.has_rows()) return;
  c.ops.run(ops::GatedForward{.act = here.act, .gate_up = here.gate_up, .rule = gate_of_experts(c.config)});
}

void multiply_down(const Context& c, const ExpertParameters& p, const ExpertRows& here) {
  multiply(c, p.down, here, here.act, here.rows, /*has_bias=*/c.tp.rank() == 0);
}

void differentiate(const Context& c, const ExpertParameters& p, const ExpertRows& here) {
  if (!here.has_rows()) return;
  if (rounds_for_both(c, p.down)) {
    differentiate_down_in_fp8(c, p.down, here);
  } else {
    add_gradients(c, p.down, here, here.rows, here.act);
    multiply_back(c, p.down, here, here.rows, here.act);
  }
  c.ops.run(ops::GatedBackward{.dgate_up = here.gate_up,
                               .act = here.act,
                               .dact = here.act,
                               .gate_up = here.gate_up,
                               .rule = gate_of_experts(c.config)});
  if (rounds_for_both(c, p.gate_up)) return multiply_gate_up_back_in_fp8(c, p.gate_up, here);
  multiply_back(c, p.gate_up, here, here.gate_up, here.rows);
}

void add_gate_up_gradients(const Context& c, const ExpertParameters& p, const ExpertRows& here) {
  if (!here.has_rows()) return;
  if (rounds_for_both(c, p.gate_up)) return add_gate_up_gradients_in_fp8(c, p.gate_up, here);
  add_gradients(c, p.gate_up, here, here.gate_up, here.rows);
}

}  // namespace sft::model
