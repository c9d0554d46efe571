// SPDX-License-Identifier: Apache-2.0
#include "sft/simulator/clocked_backend.hpp"

#include <algorithm>
#include <bit>

namespace sft::simulator {

using ops::Pass;

namespace {

/// What attention costs on a clocked backend.
class ClockedPlan final : public ops::AttentionPlan {
 public:
  /// repeats: calls of it may come again.
  ClockedPlan(std::int64_t num_queries, std::int64_t num_keys, double num_pairs, double seeing_queries, bool repeats)
      : ops::AttentionPlan(num_queries, num_keys),
        num_pairs_(num_pairs),
        seeing_queries_(seeing_queries),
        repeats_(repeats) {}
  [[nodiscard]] std::vector<std::uint64_t> launch_words() const override {
    if (!repeats_) return {};
    return {std::bit_cast<std::uint64_t>(num_pairs_), std::bit_cast<std::uint64_t>(seeing_queries_)};
  }
  [[nodiscard]] double num_pairs() const { return num_pairs_; }
  /// That a query sees on average.
  [[nodiscard]] double keys() const { return seeing_queries_ > 0 ? num_pairs_ / seeing_queries_ : 0; }

 private:
  const double num_pairs_, seeing_queries_;
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

/// A visitor of ops that adds up the bytes of their tensors: those that are read and written count twice.
struct PassBytes : ops::IgnoringVisitor {
  double sum = 0;

  template <class... Rest>
  void in(const char* /*name*/, const ConstTensor& x, const Rest&... /*rules*/) {
    sum += bytes_of(x);
  }
  template <class... Rest>
  void out(const char* /*name*/, const ConstTensor& x, const Rest&... /*rules*/) {
    sum += bytes_of(x);
  }
  template <class... Rest>
  void add(const char* /*name*/, const ConstTensor& x, const Rest&... /*rules*/) {
    sum += 2 * bytes_of(x);
  }
};

void ClockedBackend::run(const ops::Call& call) {
  std::visit([this](const auto& op) { execute(op); }, call);
}

template <class Op>
void ClockedBackend::execute(const Op& op) {
  PassBytes bytes;
  op.describe(bytes);
  pass_over(Op::pass, bytes.sum);
}

void ClockedBackend::pass_over(Pass pass, double num_bytes) {
  const double seconds = rates_.pass_s(pass, num_bytes);
  clock_.advance(seconds, seconds, pass);
}

void ClockedBackend::multiply(Form form, double count, std::int64_t m, std::int64_t n, std::int64_t k,
                              double num_bytes) {
  clock_.advance(rates_.products_s(form, count, m, n, k, num_bytes), rates_.pass_s(Pass::copy, num_bytes), form);
}

// Rows of a table, of tokens and of decoded blocks count as often as they are read.

void ClockedBackend::execute(const ops::EmbeddingForward& op) {
  pass_over(Pass::embedding_forward, 2 * bytes_of(op.out) + bytes_of(op.tokens));
}
void ClockedBackend::execute(const ops::EmbeddingBackward& op) {
  pass_over(Pass::embedding_backward, 3 * bytes_of(op.dout) + bytes_of(op.tokens));
}
void ClockedBackend::execute(const ops::GatherTokens& op) { pass_over(Pass::copy, 2 * bytes_of(op.out)); }
void ClockedBackend::execute(const ops::ReadFourBits& op) { pass_over(Pass::mlp_forward, 2 * bytes_of(op.out)); }

void ClockedBackend::execute(const ops::Matmul& product) {
  if (product.c.empty()) return;
  const std::int64_t k = product.transpose_a ? product.a.shape[0] : product.a.shape[1];
  const Form form = product.transpose_a ? Form::first : product.transpose_b ? Form::second : Form::none;
  multiply(form, 1, product.c.shape[0], product.c.shape[1], k,
           bytes_of(product.a) + bytes_of(product.b) + bytes_of(product.c) * (product.accumulate ? 2 : 1));
}

void ClockedBackend::execute(const ops::Fp8Matmul& product) {
  if (product.c.empty()) return;
  const double num_bytes = bytes_of(product.a.codes) + bytes_of(product.a.scales) + bytes_of(product.b.codes) +
                           bytes_of(product.b.scales) + bytes_of(product.c) * (product.accumulate ? 2 : 1);
  clock_.advance(rates_.products_s(Form::second, 1, product.c.shape[0], product.c.shape[1], product.a.codes.shape[1],
                                   num_bytes, rates_.fp8_speedup),
                 rates_.pass_s(Pass::copy, num_bytes), OpKind::fp8_product());
}

void ClockedBackend::execute(const ops::AttentionForward& attention) {
  const auto& plan = dynamic_cast<const ClockedPlan&>(attention.plan);
  const auto head_elements = static_cast<double>(attention.q.shape[1] * attention.q.shape[2]);
  const double num_bytes =
      bytes_of(attention.q) + bytes_of(attention.k) + bytes_of(attention.v) + bytes_of(attention.out);
  clock_.advance(rates_.attention_forward_s(4 * plan.num_pairs() * head_elements, plan.keys(), num_bytes),
                 rates_.pass_s(Pass::copy, num_bytes), OpKind::attention_forward());
}

void ClockedBackend::execute(const ops::AttentionBackward& attention) {
  const auto& plan = dynamic_cast<const ClockedPlan&>(attention.plan);
  const auto head_elements = static_cast<double>(attention.q.shape[1] * attention.q.shape[2]);
  const double num_bytes = bytes_of(attention.q) + bytes_of(attention.dout) + bytes_of(attention.dq) +
                           2 * (bytes_of(attention.k) + bytes_of(attention.dk));
  clock_.advance(rates_.attention_backward_s(10 * plan.num_pairs() * head_elements, plan.keys(), num_bytes),
                 rates_.pass_s(Pass::copy, num_bytes), OpKind::attention_backward());
}

// Rows are taken to be spread evenly over the experts.
void ClockedBackend::execute(const ops::GroupedMatmul& grouped) {
  const std::int64_t num_experts = std::max<std::int64_t>(grouped.b.shape[0], 1);
  multiply(grouped.transpose_b ? Form::second : Form::none, static_cast<double>(num_experts),
           grouped.a.shape[0] / num_experts, grouped.c.shape[1], grouped.a.shape[1],
           bytes_of(grouped.a) + bytes_of(grouped.b) + bytes_of(grouped.c));
}

void ClockedBackend::execute(const ops::GroupedWeightGradient& grouped) {
  const std::int64_t num_experts = std::max<std::int64_t>(grouped.dweight.shape[0], 1);
  multiply(Form::first, static_cast<double>(num_experts), grouped.dweight.shape[1], grouped.dweight.shape[2],
           grouped.x.shape[0] / num_experts, bytes_of(grouped.x) + bytes_of(grouped.y) + 2 * bytes_of(grouped.dweight));
  // Float32 sums of bf16 are not in the table of cuBLAS's grouped products: an expert is a call of its own.
  if (grouped.x.dtype != grouped.dweight.dtype)
    clock_.advance(static_cast<double>(num_experts - 1) * rates_.launch_s, 0, Form::first);
}

std::unique_ptr<ops::AttentionPlan> ClockedBackend::plan_attention(const std::vector<sequence::AttentionSpan>& spans,
                                                                   std::int64_t num_queries, std::int64_t num_keys) {
  double seeing_queries = 0;
  for (std::size_t i = 0; i < spans.size(); ++i) {
    const bool is_other_range = i == 0 || spans[i].q_begin != spans[i - 1].q_begin;
    if (is_other_range) seeing_queries += static_cast<double>(spans[i].q_len);
  }
  const bool are_documents = std::ranges::all_of(spans, [](const sequence::AttentionSpan& span) {
    return span.q_begin == span.k_begin && span.q_len == span.k_len && span.diagonal == 0;
  });
  return std::make_unique<ClockedPlan>(num_queries, num_keys, num_visible_pairs(spans), seeing_queries,
                                       are_documents || !is_of_library_);
}

}  // namespace sft::simulator
