// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <utility>
#include <vector>

#include "ops/backends.hpp"
#include "ops/repeated/words.hpp"
#include "ops/with_plan.hpp"
#include "sft/core/ensure.hpp"
#include "sft/device/launch_tape.hpp"

namespace sft::ops::repeated {
namespace {

/// A plan of the other backend, which lives until the calls that were put off with it are made.
struct SharedPlan final : AttentionPlan {
  explicit SharedPlan(std::unique_ptr<AttentionPlan> plan) : inner(std::move(plan)) {}
  [[nodiscard]] std::vector<std::uint64_t> launch_words() const override { return inner->launch_words(); }

  const std::shared_ptr<const AttentionPlan> inner;
};

/// Ops whose arguments are those of the last micro-batch of as many tokens go to the tape; before any other op the tape
/// is settled. Those are ops that have a seed of their own, a factor of the step or the rows of experts among their
/// arguments, or a plan of attention that no other is like.
class RepeatedBackend final : public Backend {
 public:
  RepeatedBackend(std::unique_ptr<Backend> inner, device::LaunchTape& tape) : inner_(std::move(inner)), tape_(tape) {
    inner_->set_attention_repeats(true);
  }

  device::Stream& stream() override { return inner_->stream(); }
  void set_workspace(Tensor workspace) override { plainly().set_workspace(workspace); }

  void fill(Tensor x, float value) override {
    put_off([=, this] { inner_->fill(x, value); }, Kind::fill, x, value);
  }
  void copy(Tensor destination, ConstTensor source) override {
    put_off([=, this] { inner_->copy(destination, source); }, Kind::copy, destination, source);
  }
  void add(Tensor destination, ConstTensor source) override {
    put_off([=, this] { inner_->add(destination, source); }, Kind::add, destination, source);
  }
  void scale(Tensor x, float factor) override {
    put_off([=, this] { inner_->scale(x, factor); }, Kind::scale, x, factor);
  }
  void sum_squares(Tensor result, ConstTensor x) override { plainly().sum_squares(result, x); }
  void divide_by_norm(Tensor x, ConstTensor squares, float epsilon) override {
    plainly().divide_by_norm(x, squares, epsilon);
  }
  void fill_normal(Tensor x, std::uint64_t seed, std::int64_t first_index, float stddev) override {
    plainly().fill_normal(x, seed, first_index, stddev);
  }
  void fill_uniform(Tensor x, std::uint64_t seed, std::int64_t first_index, float bound) override {
    plainly().fill_uniform(x, seed, first_index, bound);
  }
  void add_uniform(Tensor x, std::uint64_t seed, std::int64_t first_index, float bound) override {
    plainly().add_uniform(x, seed, first_index, bound);
  }
  void dropout(const Dropout& dropout) override {
    put_off([=, this] { inner_->dropout(dropout); }, Kind::dropout, dropout);
  }

  void embedding_forward(Tensor out, ConstTensor tokens, ConstTensor table, std::int64_t vocab_begin) override {
    put_off([=, this] { inner_->embedding_forward(out, tokens, table, vocab_begin); }, Kind::embedding_forward, out,
            tokens, table, vocab_begin);
  }
  void embedding_backward(Tensor dtable, ConstTensor tokens, ConstTensor dout, std::int64_t vocab_begin) override {
    put_off([=, this] { inner_->embedding_backward(dtable, tokens, dout, vocab_begin); }, Kind::embedding_backward,
            dtable, tokens, dout, vocab_begin);
  }

  void rms_norm_forward(Tensor y, Tensor rstd, ConstTensor x, const NormWeight& weight, float epsilon) override {
    put_off([=, this] { inner_->rms_norm_forward(y, rstd, x, weight, epsilon); }, Kind::rms_norm_forward, y, rstd, x,
            weight, epsilon);
  }
  void add_rms_norm_forward(const AddRmsNormForward& norm) override {
    put_off([=, this] { inner_->add_rms_norm_forward(norm); }, Kind::add_rms_norm_forward, norm.sum, norm.y, norm.rstd,
            norm.x, norm.delta, norm.weight, norm.epsilon);
  }
  void rms_norm_apply(const RmsNormApply& norm) override {
    put_off([=, this] { inner_->rms_norm_apply(norm); }, Kind::rms_norm_apply, norm.y, norm.x, norm.rstd, norm.weight);
  }
  void rms_norm_backward(const RmsNormBackward& norm) override {
    put_off([=, this] { inner_->rms_norm_backward(norm); }, Kind::rms_norm_backward, norm.dx, norm.dweight, norm.dy,
            norm.x, norm.rstd, norm.weight, norm.dresidual);
  }
  void split_norm_squares(Tensor squares, ConstTensor x) override {
    put_off([=, this] { inner_->split_norm_squares(squares, x); }, Kind::split_norm_squares, squares, x);
  }
  void split_norm_forward(const SplitNormForward& norm) override {
    put_off([=, this] { inner_->split_norm_forward(norm); }, Kind::split_norm_forward, norm);
  }
  void split_norm_dots(const SplitNormDots& norm) override {
    put_off([=, this] { inner_->split_norm_dots(norm); }, Kind::split_norm_dots, norm);
  }
  void split_norm_backward(const SplitNormBackward& norm) override {
    put_off([=, this] { inner_->split_norm_backward(norm); }, Kind::split_norm_backward, norm);
  }

  void rope_table(Tensor cosine, Tensor sine, ConstTensor positions, ConstTensor inverse_frequencies,
                  const RopeScale& scale) override {
    put_off([=, this] { inner_->rope_table(cosine, sine, positions, inverse_frequencies, scale); }, Kind::rope_table,
            cosine, sine, positions, inverse_frequencies, scale);
  }
  void rope_forward(Tensor out, ConstTensor in, const RopeTable& table) override {
    put_off([=, this] { inner_->rope_forward(out, in, table); }, Kind::rope_forward, out, in, table);
  }
  void rope_backward(Tensor din, ConstTensor dout, const RopeTable& table) override {
    put_off([=, this] { inner_->rope_backward(din, dout, table); }, Kind::rope_backward, din, dout, table);
  }
  void norm_rope_forward(const NormRopeForward& heads) override {
    put_off([=, this] { inner_->norm_rope_forward(heads); }, Kind::norm_rope_forward, heads.out, heads.rstd, heads.in,
            heads.weight, heads.table, heads.epsilon);
  }
  void norm_rope_backward(const NormRopeBackward& heads) override {
    put_off([=, this] { inner_->norm_rope_backward(heads); }, Kind::norm_rope_backward, heads.din, heads.dweight,
            heads.dout, heads.in, heads.rstd, heads.weight, heads.table);
  }

  void matmul(const Matmul& product) override {
    put_off([=, this] { inner_->matmul(product); }, Kind::matmul, product.a, product.b, product.c, product.transpose_a,
            product.transpose_b, product.accumulate, product.bias);
  }
  void bias_backward(Tensor dbias, ConstTensor dy) override {
    put_off([=, this] { inner_->bias_backward(dbias, dy); }, Kind::bias_backward, dbias, dy);
  }

  void scale_columns(const ScaleColumns& columns) override {
    put_off([=, this] { inner_->scale_columns(columns); }, Kind::scale_columns, columns);
  }
  void add_column_products(const ColumnProducts& products) override {
    put_off([=, this] { inner_->add_column_products(products); }, Kind::column_products, products);
  }
  void add_row_products(const RowProducts& products) override {
    put_off([=, this] { inner_->add_row_products(products); }, Kind::row_products, products);
  }
  void magnitude_factors(const MagnitudeFactors& factors) override {
    put_off([=, this] { inner_->magnitude_factors(factors); }, Kind::magnitude_factors, factors);
  }
  void read_four_bits(const ReadFourBits& read) override {
    put_off([=, this] { inner_->read_four_bits(read); }, Kind::read_four_bits, read);
  }
  void find_fp8_scale(const RoundToFp8& round) override {
    put_off([=, this] { inner_->find_fp8_scale(round); }, Kind::find_fp8_scale, round);
  }
  void round_to_fp8(const RoundToFp8& round) override {
    put_off([=, this] { inner_->round_to_fp8(round); }, Kind::round_to_fp8, round);
  }
  void raise_fp8_scales(const Fp8Run& run) override {
    put_off([=, this] { inner_->raise_fp8_scales(run); }, Kind::raise_fp8_scales, run);
  }
  void round_fp8_run(const Fp8Run& run) override {
    put_off([=, this] { inner_->round_fp8_run(run); }, Kind::round_fp8_run, run);
  }
  void arrange_fp8(const ArrangeFp8& arrange) override {
    put_off([=, this] { inner_->arrange_fp8(arrange); }, Kind::arrange_fp8, arrange);
  }
  void fp8_matmul(const Fp8Matmul& product) override {
    put_off([=, this] { inner_->fp8_matmul(product); }, Kind::fp8_matmul, product);
  }

  [[nodiscard]] std::unique_ptr<AttentionPlan> plan_attention(const std::vector<sequence::AttentionSpan>& spans,
                                                              std::int64_t num_queries,
                                                              std::int64_t num_keys) override {
    return std::make_unique<SharedPlan>(plainly().plan_attention(spans, num_queries, num_keys));
  }
  void expect_attention(const std::vector<sequence::AttentionSpan>& spans, std::int64_t num_queries,
                        std::int64_t num_keys) override {
    plainly().expect_attention(spans, num_queries, num_keys);
  }
  void attention_forward(const AttentionForward& attention) override {
    const AttentionForward& a = attention;
    put_off_attention([this](const AttentionForward& call) { inner_->attention_forward(call); },
                      Kind::attention_forward, a, a.q, a.k, a.v, a.out, a.lse, a.scale, a.merge, a.softcap, a.sinks);
  }
  void attention_delta(Tensor delta, ConstTensor out, ConstTensor dout) override {
    put_off([=, this] { inner_->attention_delta(delta, out, dout); }, Kind::attention_delta, delta, out, dout);
  }
  void attention_backward(const AttentionBackward& attention) override {
    const AttentionBackward& a = attention;
    put_off_attention([this](const AttentionBackward& call) { inner_->attention_backward(call); },
                      Kind::attention_backward, a, a.q, a.k, a.v, a.dout, a.lse, a.delta, a.dq, a.dk, a.dv, a.scale,
                      a.accumulate_dq, a.accumulate_dkv, a.softcap, a.out);
  }
  void attention_sinks_backward(const AttentionSinksBackward& attention) override {
    put_off([=, this] { inner_->attention_sinks_backward(attention); }, Kind::attention_sinks_backward,
            attention.dsinks, attention.sinks, attention.lse, attention.delta);
  }
  [[nodiscard]] LibraryCalls library_calls() const override { return inner_->library_calls(); }

  void swiglu_forward(Tensor act, ConstTensor gate_up) override {
    put_off([=, this] { inner_->swiglu_forward(act, gate_up); }, Kind::swiglu_forward, act, gate_up);
  }
  void swiglu_backward(Tensor dgate_up, Tensor act, ConstTensor dact, ConstTensor gate_up) override {
    put_off([=, this] { inner_->swiglu_backward(dgate_up, act, dact, gate_up); }, Kind::swiglu_backward, dgate_up, act,
            dact, gate_up);
  }

  void router_forward(const RouterForward& router) override { plainly().router_forward(router); }
  void router_backward(const RouterBackward& router) override { plainly().router_backward(router); }
  void router_sums(const RouterSums& sums) override { plainly().router_sums(sums); }
  void router_sums_backward(const RouterSumsBackward& sums) override { plainly().router_sums_backward(sums); }
  void expert_order(const ExpertOrder& order) override { plainly().expert_order(order); }
  void gather_tokens(const GatherTokens& gather) override { plainly().gather_tokens(gather); }
  void combine_rows(const CombineRows& combine) override { plainly().combine_rows(combine); }
  void combine_weights_backward(const CombineWeightsBackward& combine) override {
    plainly().combine_weights_backward(combine);
  }
  void grouped_matmul(const GroupedMatmul& grouped) override { plainly().grouped_matmul(grouped); }
  void grouped_weight_gradient(const GroupedWeightGradient& grouped) override {
    plainly().grouped_weight_gradient(grouped);
  }
  void grouped_bias_gradient(const GroupedBiasGradient& grouped) override { plainly().grouped_bias_gradient(grouped); }
  void gated_forward(const GatedForward& gated) override {
    put_off([=, this] { inner_->gated_forward(gated); }, Kind::gated_forward, gated.act, gated.gate_up, gated.rule);
  }
  void gated_backward(const GatedBackward& gated) override {
    put_off([=, this] { inner_->gated_backward(gated); }, Kind::gated_backward, gated.dgate_up, gated.act, gated.dact,
            gated.gate_up, gated.rule);
  }

  void soft_cap(Tensor x, float cap) override {
    put_off([=, this] { inner_->soft_cap(x, cap); }, Kind::soft_cap, x, cap);
  }
  void cross_entropy_max(const CrossEntropy& chunk) override {
    put_off([=, this] { inner_->cross_entropy_max(chunk); }, Kind::cross_entropy_max, chunk);
  }
  void cross_entropy_partials(const CrossEntropy& chunk) override {
    put_off([=, this] { inner_->cross_entropy_partials(chunk); }, Kind::cross_entropy_partials, chunk);
  }
  void cross_entropy_finish(const CrossEntropy& chunk, Tensor dlogits, double gradient_scale, Tensor metrics) override {
    plainly().cross_entropy_finish(chunk, dlogits, gradient_scale, metrics);
  }

  void update(const Update& step) override { plainly().update(step); }
  void update_blockwise(const BlockwiseUpdate& step) override { plainly().update_blockwise(step); }
  void raise_scales(const BlockwiseUpdate& step) override { plainly().raise_scales(step); }
  void sum_squares_by_dim(const SquareSums& sums) override { plainly().sum_squares_by_dim(sums); }
  void update_factors(const MomentFactors& step) override { plainly().update_factors(step); }
  void add_direction_squares(const FactoredUpdate& step) override { plainly().add_direction_squares(step); }
  void update_factored(const FactoredUpdate& step) override { plainly().update_factored(step); }

 private:
  template <class Work, class... Arguments>
  void put_off(const Work& work, Kind kind, const Arguments&... arguments) {
    if (!tape_.is_on()) return work();
    tape_.put_off(words_.of(kind, arguments...), work);
  }

  /// Of the same call with the plan as the other backend made it.
  template <class Run, class Attention, class... Arguments>
  void put_off_attention(const Run& run, Kind kind, const Attention& attention, const Arguments&... arguments) {
    const auto* const shared = dynamic_cast<const SharedPlan*>(&attention.plan);
    SFT_ENSURE(shared != nullptr, "ops: an attention plan is for the backend that made it");
    const auto work = [run, call = with_plan(attention, *shared->inner), plan = shared->inner] { run(call); };
    const std::vector<std::uint64_t> of_plan = tape_.is_on() ? shared->launch_words() : std::vector<std::uint64_t>();
    if (!of_plan.empty()) return tape_.put_off(words_.of(kind, arguments..., of_plan), work);
    tape_.settle();
    work();
  }

  /// For an op that is queued now.
  [[nodiscard]] Backend& plainly() {
    tape_.settle();
    return *inner_;
  }

  const std::unique_ptr<Backend> inner_;
  device::LaunchTape& tape_;
  Words words_;
};

}  // namespace

std::unique_ptr<Backend> make_backend(std::unique_ptr<Backend> inner) {
  device::LaunchTape* const tape = inner->stream().start_tape() ? inner->stream().tape() : nullptr;
  SFT_ENSURE(tape != nullptr, "ops: the stream of what repeats can record");
  return std::make_unique<RepeatedBackend>(std::move(inner), *tape);
}

}  // namespace sft::ops::repeated
