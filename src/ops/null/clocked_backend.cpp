// SPDX-License-Identifier: Apache-2.0
#include "ops/null/clocked_backend.hpp"

#include <algorithm>

namespace sft::ops::null {

namespace {

/// What attention costs on a clocked backend.
class ClockedPlan final : public AttentionPlan {
 public:
  explicit ClockedPlan(double num_pairs) : num_pairs_(num_pairs) {}
  [[nodiscard]] double num_pairs() const { return num_pairs_; }

 private:
  const double num_pairs_;
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
void ClockedBackend::pass_over(const Tensors&... tensors) {
  clock_.advance(rates_.launch_s + (bytes_of(tensors) + ...) / rates_.memory_bytes_per_s);
}

void ClockedBackend::work(double num_flops, double flops_per_s, double num_bytes) {
  if (num_flops == 0) return;
  clock_.advance(rates_.launch_s + std::max(num_flops / flops_per_s, num_bytes / rates_.memory_bytes_per_s));
}

void ClockedBackend::multiply(double count, std::int64_t m, std::int64_t n, std::int64_t k, double num_bytes) {
  const double flops = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  work(count * flops, rates_.product_flops_per_s(m, n, k), num_bytes);
}

void ClockedBackend::fill(Tensor x, float /*value*/) { pass_over(x); }
void ClockedBackend::copy(Tensor destination, ConstTensor source) { pass_over(destination, source); }
void ClockedBackend::add(Tensor destination, ConstTensor source) { pass_over(destination, destination, source); }
void ClockedBackend::scale(Tensor x, float /*factor*/) { pass_over(x, x); }
void ClockedBackend::sum_squares(Tensor /*result*/, ConstTensor x) { pass_over(x); }
void ClockedBackend::divide_by_norm(Tensor x, ConstTensor /*squares*/, float /*epsilon*/) { pass_over(x, x); }
void ClockedBackend::add_uniform(Tensor x, std::uint64_t /*seed*/, std::int64_t /*first_index*/, float /*bound*/) {
  pass_over(x, x);
}
void ClockedBackend::dropout(Tensor out, ConstTensor in, float /*probability*/, std::uint64_t /*seed*/,
                             std::int64_t /*first_index*/, bool accumulate) {
  pass_over(out, in, accumulate ? out : Tensor());
}

void ClockedBackend::embedding_forward(Tensor out, ConstTensor tokens, ConstTensor /*table*/,
                                       std::int64_t /*vocab_begin*/) {
  pass_over(out, out, tokens);
}
void ClockedBackend::embedding_backward(Tensor /*dtable*/, ConstTensor tokens, ConstTensor dout,
                                        std::int64_t /*vocab_begin*/) {
  pass_over(dout, dout, dout, tokens);
}

void ClockedBackend::rms_norm_forward(Tensor y, Tensor rstd, ConstTensor x, const NormWeight& /*weight*/,
                                      float /*epsilon*/) {
  pass_over(y, rstd, x);
}
void ClockedBackend::add_rms_norm_forward(const AddRmsNormForward& norm) {
  pass_over(norm.sum, norm.y, norm.x, norm.delta);
}
void ClockedBackend::rms_norm_apply(const RmsNormApply& norm) { pass_over(norm.y, norm.x); }
void ClockedBackend::rms_norm_backward(const RmsNormBackward& norm) {
  pass_over(norm.dx, norm.dy, norm.x, norm.dresidual);
}
void ClockedBackend::split_norm_squares(Tensor squares, ConstTensor x) { pass_over(squares, x); }
void ClockedBackend::split_norm_forward(const SplitNormForward& norm) { pass_over(norm.y, norm.x); }
void ClockedBackend::split_norm_dots(const SplitNormDots& norm) { pass_over(norm.dy, norm.x); }
void ClockedBackend::split_norm_backward(const SplitNormBackward& norm) { pass_over(norm.dx, norm.dy, norm.x); }

void ClockedBackend::rope_table(Tensor cosine, Tensor sine, ConstTensor /*positions*/,
                                ConstTensor /*inverse_frequencies*/, const RopeScale& /*scale*/) {
  pass_over(cosine, sine);
}
void ClockedBackend::rope_forward(Tensor out, ConstTensor in, const RopeTable& /*table*/) { pass_over(out, in); }
void ClockedBackend::rope_backward(Tensor din, ConstTensor dout, const RopeTable& /*table*/) { pass_over(din, dout); }
void ClockedBackend::norm_rope_forward(const NormRopeForward& heads) { pass_over(heads.out, heads.in); }
void ClockedBackend::norm_rope_backward(const NormRopeBackward& heads) { pass_over(heads.din, heads.dout, heads.in); }

void ClockedBackend::matmul(const Matmul& product) {
  if (product.c.empty()) return;
  const std::int64_t k = product.transpose_a ? product.a.shape[0] : product.a.shape[1];
  multiply(1, product.c.shape[0], product.c.shape[1], k,
           bytes_of(product.a) + bytes_of(product.b) + bytes_of(product.c) * (product.accumulate ? 2 : 1));
}
void ClockedBackend::find_fp8_scales(const RoundToFp8& round) { pass_over(round.in, round.out.scales); }
void ClockedBackend::round_to_fp8(const RoundToFp8& round) { pass_over(round.in, round.out.scales, round.out.codes); }
// No rate of such products is known: that of others, over codes of a byte each.
void ClockedBackend::fp8_matmul(const Fp8Matmul& product) {
  if (product.c.empty()) return;
  const std::int64_t k = product.a.codes.shape[product.transpose_a ? 0 : 1];
  multiply(1, product.c.shape[0], product.c.shape[1], k,
           bytes_of(product.a.codes) + bytes_of(product.b.codes) + bytes_of(product.c) * (product.accumulate ? 2 : 1));
}
void ClockedBackend::bias_backward(Tensor /*dbias*/, ConstTensor dy) { pass_over(dy); }

void ClockedBackend::scale_columns(const ScaleColumns& columns) { pass_over(columns.out, columns.in); }
void ClockedBackend::add_column_products(const ColumnProducts& products) { pass_over(products.a, products.b); }
void ClockedBackend::add_row_products(const RowProducts& products) { pass_over(products.a, products.b); }

std::unique_ptr<AttentionPlan> ClockedBackend::plan_attention(const std::vector<sequence::AttentionSpan>& spans,
                                                              std::int64_t /*num_queries*/, std::int64_t /*num_keys*/) {
  return std::make_unique<ClockedPlan>(num_visible_pairs(spans));
}
void ClockedBackend::attention_forward(const AttentionForward& attention) {
  const double pairs = dynamic_cast<const ClockedPlan&>(attention.plan).num_pairs();
  const auto head_elements = static_cast<double>(attention.q.shape[1] * attention.q.shape[2]);
  work(4 * pairs * head_elements, rates_.attention_forward_flops_per_s,
       bytes_of(attention.q) + bytes_of(attention.k) + bytes_of(attention.v) + bytes_of(attention.out));
}
void ClockedBackend::attention_delta(Tensor delta, ConstTensor out, ConstTensor dout) { pass_over(delta, out, dout); }
void ClockedBackend::attention_backward(const AttentionBackward& attention) {
  const double pairs = dynamic_cast<const ClockedPlan&>(attention.plan).num_pairs();
  const auto head_elements = static_cast<double>(attention.q.shape[1] * attention.q.shape[2]);
  work(10 * pairs * head_elements, rates_.attention_backward_flops_per_s,
       bytes_of(attention.q) + bytes_of(attention.dout) + bytes_of(attention.dq) +
           2 * (bytes_of(attention.k) + bytes_of(attention.dk)));
}

void ClockedBackend::swiglu_forward(Tensor act, ConstTensor gate_up) { pass_over(act, gate_up); }
void ClockedBackend::swiglu_backward(Tensor dgate_up, Tensor act, ConstTensor dact, ConstTensor gate_up) {
  pass_over(dgate_up, act, dact, gate_up);
}

void ClockedBackend::router_forward(const RouterForward& router) { pass_over(router.logits, router.weights); }
void ClockedBackend::router_backward(const RouterBackward& router) { pass_over(router.dlogits, router.logits); }
void ClockedBackend::expert_order(const ExpertOrder& order) { pass_over(order.experts, order.choices, order.rows); }
void ClockedBackend::gather_tokens(const GatherTokens& gather) { pass_over(gather.out, gather.out); }
void ClockedBackend::combine_rows(const CombineRows& combine) { pass_over(combine.out, combine.in); }
void ClockedBackend::combine_weights_backward(const CombineWeightsBackward& combine) { pass_over(combine.in); }
// Rows are taken to be spread evenly over the experts.
void ClockedBackend::grouped_matmul(const GroupedMatmul& grouped) {
  const std::int64_t num_experts = std::max<std::int64_t>(grouped.b.shape[0], 1);
  multiply(static_cast<double>(num_experts), grouped.a.shape[0] / num_experts, grouped.c.shape[1], grouped.a.shape[1],
           bytes_of(grouped.a) + bytes_of(grouped.b) + bytes_of(grouped.c));
}
void ClockedBackend::grouped_weight_gradient(const GroupedWeightGradient& grouped) {
  const std::int64_t num_experts = std::max<std::int64_t>(grouped.dweight.shape[0], 1);
  multiply(static_cast<double>(num_experts), grouped.dweight.shape[1], grouped.dweight.shape[2],
           grouped.x.shape[0] / num_experts, bytes_of(grouped.x) + bytes_of(grouped.y) + 2 * bytes_of(grouped.dweight));
}
void ClockedBackend::grouped_bias_gradient(const GroupedBiasGradient& grouped) { pass_over(grouped.dy); }
void ClockedBackend::gated_forward(const GatedForward& gated) { pass_over(gated.act, gated.gate_up); }
void ClockedBackend::gated_backward(const GatedBackward& gated) {
  pass_over(gated.dgate_up, gated.act, gated.dact, gated.gate_up);
}

void ClockedBackend::soft_cap(Tensor x, float /*cap*/) { pass_over(x, x); }
void ClockedBackend::cross_entropy_max(const CrossEntropy& chunk) { pass_over(chunk.logits); }
void ClockedBackend::cross_entropy_partials(const CrossEntropy& chunk) { pass_over(chunk.logits, chunk.logits); }
void ClockedBackend::cross_entropy_finish(const CrossEntropy& chunk, Tensor dlogits, double /*gradient_scale*/,
                                          Tensor /*metrics*/) {
  pass_over(chunk.logits, dlogits);
}

void ClockedBackend::update(const Update& step) {
  pass_over(step.parameters, step.parameters, step.gradients, step.state[0], step.state[0], step.state[1],
            step.state[1], step.copy);
}
void ClockedBackend::update_blockwise(const BlockwiseUpdate& step) { update(step.update); }
void ClockedBackend::raise_scales(const BlockwiseUpdate& step) {
  pass_over(step.update.gradients, step.update.state[0], step.update.state[1]);
}
void ClockedBackend::sum_squares_by_dim(const SquareSums& sums) { pass_over(sums.x); }
void ClockedBackend::update_factors(const MomentFactors& step) { pass_over(step.moment, step.sums, step.factors); }
void ClockedBackend::add_direction_squares(const FactoredUpdate& step) { pass_over(step.gradients); }
void ClockedBackend::update_factored(const FactoredUpdate& step) {
  pass_over(step.parameters, step.parameters, step.gradients, step.copy);
}

}  // namespace sft::ops::null
