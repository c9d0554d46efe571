// SPDX-License-Identifier: Apache-2.0
#include "ops/null/clocked_backend.hpp"

#include <algorithm>
#include <bit>

namespace sft::ops::null {

using device::Pass;

namespace {

/// What attention costs on a clocked backend.
class ClockedPlan final : public AttentionPlan {
 public:
  /// repeats: calls of it may come again.
  ClockedPlan(double num_pairs, double num_queries, bool repeats)
      : num_pairs_(num_pairs), num_queries_(num_queries), repeats_(repeats) {}
  [[nodiscard]] std::vector<std::uint64_t> launch_words() const override {
    if (!repeats_) return {};
    return {std::bit_cast<std::uint64_t>(num_pairs_), std::bit_cast<std::uint64_t>(num_queries_)};
  }
  [[nodiscard]] double num_pairs() const { return num_pairs_; }
  /// That a query sees in the mean.
  [[nodiscard]] double keys() const { return num_queries_ > 0 ? num_pairs_ / num_queries_ : 0; }

 private:
  const double num_pairs_, num_queries_;
  const bool repeats_;
};

double bytes_of(const ConstTensor& x) { return x.empty() ? 0.0 : static_cast<double>(x.size_bytes()); }

/// The sum over i in [0, n) of i + first + 1, each held in [0, limit].
double sum_of_ramp(std::int64_t n, std::int64_t first, std::int64_t limit) {
  const std::int64_t begin = std::clamp<std::int64_t>(-first - 1, 0, n);       // up to here 0
  const std::int64_t end = std::clamp<std::int64_t>(limit - first, begin, n);  // from here limit
  const auto count = static_cast<double>(end - begin);
  const double ramp = count * (static_cast<double>(begin + first + 1) + static_cast<double>(end + first)) / 2;
  return ramp + static_cast<double>(n - end) * static_cast<double>(limit);
}

}  // namespace

double num_visible_pairs(const std::vector<sequence::AttentionSpan>& spans) {
  double pairs = 0;
  for (const sequence::AttentionSpan& span : spans) {
    pairs += sum_of_ramp(span.q_len, span.diagonal, span.k_len);
    if (span.window > 0) pairs -= sum_of_ramp(span.q_len, span.diagonal - span.window, span.k_len);
  }
  return pairs;
}

template <class... Tensors>
void ClockedBackend::pass_over(Pass pass, const Tensors&... tensors) {
  const double seconds = rates_.pass_s(pass, (bytes_of(tensors) + ...));
  clock_.advance(seconds, seconds, pass);
}

void ClockedBackend::multiply(Form form, double count, std::int64_t m, std::int64_t n, std::int64_t k,
                              double num_bytes) {
  clock_.advance(rates_.products_s(form, count, m, n, k, num_bytes), rates_.pass_s(Pass::copy, num_bytes), form);
}

void ClockedBackend::fill(Tensor x, float /*value*/) { pass_over(Pass::copy, x); }
void ClockedBackend::copy(Tensor destination, ConstTensor source) { pass_over(Pass::copy, destination, source); }
void ClockedBackend::add(Tensor destination, ConstTensor source) {
  pass_over(Pass::add, destination, destination, source);
}
void ClockedBackend::scale(Tensor x, float /*factor*/) { pass_over(Pass::add, x, x); }
void ClockedBackend::sum_squares(Tensor /*result*/, ConstTensor x) { pass_over(Pass::sum_squares, x); }
void ClockedBackend::divide_by_norm(Tensor x, ConstTensor /*squares*/, float /*epsilon*/) {
  pass_over(Pass::sum_squares, x, x);
}
void ClockedBackend::add_uniform(Tensor x, std::uint64_t /*seed*/, std::int64_t /*first_index*/, float /*bound*/) {
  pass_over(Pass::add, x, x);
}
void ClockedBackend::dropout(const Dropout& dropout) {
  pass_over(Pass::add, dropout.out, dropout.in, dropout.accumulate ? dropout.out : Tensor());
}

void ClockedBackend::embedding_forward(Tensor out, ConstTensor tokens, ConstTensor /*table*/,
                                       std::int64_t /*vocab_begin*/) {
  pass_over(Pass::embedding_forward, out, out, tokens);
}
void ClockedBackend::embedding_backward(Tensor /*dtable*/, ConstTensor tokens, ConstTensor dout,
                                        std::int64_t /*vocab_begin*/) {
  pass_over(Pass::embedding_backward, dout, dout, dout, tokens);
}

void ClockedBackend::rms_norm_forward(Tensor y, Tensor rstd, ConstTensor x, const NormWeight& /*weight*/,
                                      float /*epsilon*/) {
  pass_over(Pass::norm_forward, y, rstd, x);
}
void ClockedBackend::add_rms_norm_forward(const AddRmsNormForward& norm) {
  pass_over(Pass::norm_forward, norm.sum, norm.y, norm.x, norm.delta);
}
void ClockedBackend::rms_norm_apply(const RmsNormApply& norm) { pass_over(Pass::norm_forward, norm.y, norm.x); }
void ClockedBackend::rms_norm_backward(const RmsNormBackward& norm) {
  pass_over(Pass::norm_backward, norm.dx, norm.dy, norm.x, norm.dresidual);
}
void ClockedBackend::split_norm_squares(Tensor squares, ConstTensor x) { pass_over(Pass::norm_forward, squares, x); }
void ClockedBackend::split_norm_forward(const SplitNormForward& norm) { pass_over(Pass::norm_forward, norm.y, norm.x); }
void ClockedBackend::split_norm_dots(const SplitNormDots& norm) { pass_over(Pass::norm_backward, norm.dy, norm.x); }
void ClockedBackend::split_norm_backward(const SplitNormBackward& norm) {
  pass_over(Pass::norm_backward, norm.dx, norm.dy, norm.x);
}

void ClockedBackend::rope_table(Tensor cosine, Tensor sine, ConstTensor /*positions*/,
                                ConstTensor /*inverse_frequencies*/, const RopeScale& /*scale*/) {
  pass_over(Pass::rope, cosine, sine);
}
void ClockedBackend::rope_forward(Tensor out, ConstTensor in, const RopeTable& /*table*/) {
  pass_over(Pass::rope, out, in);
}
void ClockedBackend::rope_backward(Tensor din, ConstTensor dout, const RopeTable& /*table*/) {
  pass_over(Pass::rope, din, dout);
}
void ClockedBackend::norm_rope_forward(const NormRopeForward& heads) {
  pass_over(Pass::norm_forward, heads.out, heads.in);
}
void ClockedBackend::norm_rope_backward(const NormRopeBackward& heads) {
  pass_over(Pass::norm_backward, heads.din, heads.dout, heads.in);
}

void ClockedBackend::matmul(const Matmul& product) {
  if (product.c.empty()) return;
  const std::int64_t k = product.transpose_a ? product.a.shape[0] : product.a.shape[1];
  const Form form = product.transpose_a ? Form::first : product.transpose_b ? Form::second : Form::none;
  multiply(form, 1, product.c.shape[0], product.c.shape[1], k,
           bytes_of(product.a) + bytes_of(product.b) + bytes_of(product.c) * (product.accumulate ? 2 : 1));
}
void ClockedBackend::find_fp8_scale(const RoundToFp8& round) {
  pass_over(Pass::sum_squares, round.in, round.out.scales);
}
void ClockedBackend::round_to_fp8(const RoundToFp8& round) {
  pass_over(Pass::copy, round.in, round.out.scales, round.out.codes, round.turned.scales, round.turned.codes);
}
void ClockedBackend::raise_fp8_scales(const Fp8Run& run) { pass_over(Pass::sum_squares, run.in); }
void ClockedBackend::round_fp8_run(const Fp8Run& run) { pass_over(Pass::copy, run.in, run.codes); }
void ClockedBackend::arrange_fp8(const ArrangeFp8& arrange) { pass_over(Pass::copy, arrange.in, arrange.out); }
void ClockedBackend::fp8_matmul(const Fp8Matmul& product) {
  if (product.c.empty()) return;
  const double num_bytes = bytes_of(product.a.codes) + bytes_of(product.a.scales) + bytes_of(product.b.codes) +
                           bytes_of(product.b.scales) + bytes_of(product.c) * (product.accumulate ? 2 : 1);
  clock_.advance(rates_.products_s(Form::second, 1, product.c.shape[0], product.c.shape[1], product.a.codes.shape[1],
                                   num_bytes, rates_.fp8_speedup),
                 rates_.pass_s(Pass::copy, num_bytes), device::OpKind::fp8_product());
}
void ClockedBackend::bias_backward(Tensor /*dbias*/, ConstTensor dy) { pass_over(Pass::add, dy); }

void ClockedBackend::read_four_bits(const ReadFourBits& read) { pass_over(Pass::mlp_forward, read.out, read.out); }

void ClockedBackend::scale_columns(const ScaleColumns& columns) { pass_over(Pass::add, columns.out, columns.in); }
void ClockedBackend::add_column_products(const ColumnProducts& products) {
  pass_over(Pass::add, products.a, products.b);
}
void ClockedBackend::add_row_products(const RowProducts& products) { pass_over(Pass::add, products.a, products.b); }

std::unique_ptr<AttentionPlan> ClockedBackend::plan_attention(const std::vector<sequence::AttentionSpan>& spans,
                                                              std::int64_t /*num_queries*/, std::int64_t /*num_keys*/) {
  double num_queries = 0;
  for (std::size_t i = 0; i < spans.size(); ++i) {
    const bool is_other_range = i == 0 || spans[i].q_begin != spans[i - 1].q_begin;
    if (is_other_range) num_queries += static_cast<double>(spans[i].q_len);
  }
  const bool are_documents = std::ranges::all_of(spans, [](const sequence::AttentionSpan& span) {
    return span.q_begin == span.k_begin && span.q_len == span.k_len && span.diagonal == 0;
  });
  return std::make_unique<ClockedPlan>(num_visible_pairs(spans), num_queries, are_documents || !is_of_library_);
}
void ClockedBackend::attention_forward(const AttentionForward& attention) {
  const auto& plan = dynamic_cast<const ClockedPlan&>(attention.plan);
  const auto head_elements = static_cast<double>(attention.q.shape[1] * attention.q.shape[2]);
  const double num_bytes =
      bytes_of(attention.q) + bytes_of(attention.k) + bytes_of(attention.v) + bytes_of(attention.out);
  clock_.advance(rates_.attention_forward_s(4 * plan.num_pairs() * head_elements, plan.keys(), num_bytes),
                 rates_.pass_s(Pass::copy, num_bytes), device::OpKind::attention_forward());
}
void ClockedBackend::attention_delta(Tensor delta, ConstTensor out, ConstTensor dout) {
  pass_over(Pass::add, delta, out, dout);
}
void ClockedBackend::attention_backward(const AttentionBackward& attention) {
  const auto& plan = dynamic_cast<const ClockedPlan&>(attention.plan);
  const auto head_elements = static_cast<double>(attention.q.shape[1] * attention.q.shape[2]);
  const double num_bytes = bytes_of(attention.q) + bytes_of(attention.dout) + bytes_of(attention.dq) +
                           2 * (bytes_of(attention.k) + bytes_of(attention.dk));
  clock_.advance(rates_.attention_backward_s(10 * plan.num_pairs() * head_elements, plan.keys(), num_bytes),
                 rates_.pass_s(Pass::copy, num_bytes), device::OpKind::attention_backward());
}

void ClockedBackend::swiglu_forward(Tensor act, ConstTensor gate_up) { pass_over(Pass::mlp_forward, act, gate_up); }
void ClockedBackend::swiglu_backward(Tensor dgate_up, Tensor act, ConstTensor dact, ConstTensor gate_up) {
  pass_over(Pass::mlp_backward, dgate_up, act, dact, gate_up);
}

void ClockedBackend::router_forward(const RouterForward& router) {
  pass_over(Pass::loss_forward, router.logits, router.weights);
}
void ClockedBackend::router_backward(const RouterBackward& router) {
  pass_over(Pass::loss_backward, router.dlogits, router.logits);
}
void ClockedBackend::expert_order(const ExpertOrder& order) {
  pass_over(Pass::copy, order.experts, order.choices, order.rows);
}
void ClockedBackend::gather_tokens(const GatherTokens& gather) { pass_over(Pass::copy, gather.out, gather.out); }
void ClockedBackend::combine_rows(const CombineRows& combine) { pass_over(Pass::add, combine.out, combine.in); }
void ClockedBackend::combine_weights_backward(const CombineWeightsBackward& combine) {
  pass_over(Pass::add, combine.in);
}
// Rows are taken to be spread evenly over the experts.
void ClockedBackend::grouped_matmul(const GroupedMatmul& grouped) {
  const std::int64_t num_experts = std::max<std::int64_t>(grouped.b.shape[0], 1);
  multiply(grouped.transpose_b ? Form::second : Form::none, static_cast<double>(num_experts),
           grouped.a.shape[0] / num_experts, grouped.c.shape[1], grouped.a.shape[1],
           bytes_of(grouped.a) + bytes_of(grouped.b) + bytes_of(grouped.c));
}
void ClockedBackend::grouped_weight_gradient(const GroupedWeightGradient& grouped) {
  const std::int64_t num_experts = std::max<std::int64_t>(grouped.dweight.shape[0], 1);
  multiply(Form::first, static_cast<double>(num_experts), grouped.dweight.shape[1], grouped.dweight.shape[2],
           grouped.x.shape[0] / num_experts, bytes_of(grouped.x) + bytes_of(grouped.y) + 2 * bytes_of(grouped.dweight));
  // Float32 sums of bf16 are not in the table of cuBLAS's grouped products: an expert is a call of its own.
  if (grouped.x.dtype != grouped.dweight.dtype)
    clock_.advance(static_cast<double>(num_experts - 1) * rates_.launch_s, 0, Form::first);
}
void ClockedBackend::grouped_bias_gradient(const GroupedBiasGradient& grouped) { pass_over(Pass::add, grouped.dy); }
void ClockedBackend::gated_forward(const GatedForward& gated) {
  pass_over(Pass::mlp_forward, gated.act, gated.gate_up);
}
void ClockedBackend::gated_backward(const GatedBackward& gated) {
  pass_over(Pass::mlp_backward, gated.dgate_up, gated.act, gated.dact, gated.gate_up);
}

void ClockedBackend::soft_cap(Tensor x, float /*cap*/) { pass_over(Pass::loss_forward, x, x); }
void ClockedBackend::cross_entropy_max(const CrossEntropy& chunk) { pass_over(Pass::sum_squares, chunk.logits); }
void ClockedBackend::cross_entropy_partials(const CrossEntropy& chunk) {
  pass_over(Pass::loss_forward, chunk.logits, chunk.logits);
}
void ClockedBackend::cross_entropy_finish(const CrossEntropy& chunk, Tensor dlogits, double /*gradient_scale*/,
                                          Tensor /*metrics*/) {
  pass_over(Pass::loss_backward, chunk.logits, dlogits);
}

void ClockedBackend::update(const Update& step) {
  pass_over(Pass::update, step.parameters, step.parameters, step.gradients, step.state[0], step.state[0], step.state[1],
            step.state[1], step.copy);
}
void ClockedBackend::update_blockwise(const BlockwiseUpdate& step) { update(step.update); }
void ClockedBackend::raise_scales(const BlockwiseUpdate& step) {
  pass_over(Pass::update, step.update.gradients, step.update.state[0], step.update.state[1]);
}
void ClockedBackend::sum_squares_by_dim(const SquareSums& sums) { pass_over(Pass::sum_squares, sums.x); }
void ClockedBackend::update_factors(const MomentFactors& step) {
  pass_over(Pass::update, step.moment, step.sums, step.factors);
}
void ClockedBackend::add_direction_squares(const FactoredUpdate& step) { pass_over(Pass::sum_squares, step.gradients); }
void ClockedBackend::update_factored(const FactoredUpdate& step) {
  pass_over(Pass::update, step.parameters, step.parameters, step.gradients, step.copy);
}

}  // namespace sft::ops::null
