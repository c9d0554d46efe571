// SPDX-License-Identifier: Apache-2.0
#include "ops/backends.hpp"

#include <fmt/core.h>
#include <algorithm>
#include <string>
#include <utility>

#include "ops/checked/attention_rules.hpp"
#include "ops/checked/call.hpp"
#include "ops/checked/expert_rules.hpp"
#include "ops/checked/magnitude_rules.hpp"
#include "ops/with_plan.hpp"
#include "sft/core/ensure.hpp"

namespace sft::ops::checked {
namespace {

/// Both are matrices of as many rows and columns, or both are contiguous and have as many elements.
void check_pair(Call& call, const Tensor& destination, const ConstTensor& source, DTypes dtypes) {
  call.out("destination", destination, shape_of(destination), dtypes, Layout::strided);
  call.in("source", source, shape_of(source), dtypes, Layout::strided);
  const bool are_flat = destination.is_contiguous() && source.is_contiguous();
  call.require(destination.num_elements() == source.num_elements() &&
                   (are_flat || destination.num_elements() == 0 || destination.shape[0] == source.shape[0]),
               "source and destination have other shapes");
  call.check_memory();
}

void check_rms_norm(Call& call, const Tensor& y, const ConstTensor& x, const NormWeight& weight) {
  call.require_dims("x", x, 2);
  const DType compute = compute_of(call, "x", x);
  call.in("x", x, {x.shape[0], x.shape[1]}, compute);
  call.out("y", y, {x.shape[0], x.shape[1]}, compute);
  call.in("weight", weight.tensor, {x.shape[1]}, {compute, DType::float32});
}

/// `half` pairs of every head of `in` turn.
void check_table(Call& call, const RopeTable& table, const ConstTensor& in, std::int64_t half) {
  call.in("table.cosine", table.cosine, {in.shape[0], half}, DType::float32);
  call.in("table.sine", table.sine, {in.shape[0], half}, DType::float32);
}

/// `in` (T, n, D), and what is written over heads of its shape.
void check_heads(Call& call, std::string_view in_name, const ConstTensor& in, std::string_view out_name,
                 const Tensor& out) {
  call.require_dims(in_name, in, 3);
  call.require(in.shape[2] % 2 == 0, fmt::format("{} has an odd head dim", in_name));
  const DType compute = compute_of(call, in_name, in);
  call.in(in_name, in, shape_of(in), compute, Layout::strided);
  call.out(out_name, out, shape_of(in), compute, Layout::strided);
}

void check_rope(std::string_view op, std::string_view in_name, const ConstTensor& in, std::string_view out_name,
                const Tensor& out, const RopeTable& table) {
  Call call(op);
  check_heads(call, in_name, in, out_name, out);
  call.may_be(out_name, in_name);
  call.require_dims("table.cosine", table.cosine, 2);
  call.require_dims("table.sine", table.sine, 2);
  call.require(table.cosine.shape[1] == table.sine.shape[1], "table.cosine and table.sine have other widths");
  const std::int64_t all = in.shape[2] / 2, half = std::min(table.cosine.shape[1], all);
  check_table(call, table, in, half);
  call.require(half == all || out.data == in.data,
               fmt::format("{} is not {}, where some dims do not turn", out_name, in_name));
  call.check_memory();
}

/// The tensors of a chunk. What of them a step writes differs.
void check_chunk(Call& call, const CrossEntropy& chunk) {
  call.require_dims("logits", chunk.logits, 2);
  const std::int64_t num_tokens = chunk.logits.shape[0];
  call.out("logits", chunk.logits, shape_of(chunk.logits), DType::float32);
  call.out("max", chunk.max, {num_tokens}, DType::float32);
  call.out("partials", chunk.partials, {chunk.loss.num_partials(), num_tokens}, DType::float32);
  call.require(!chunk.loss.dft || chunk.loss.label_smoothing == 0.0, "smoothing does not go with dft");
  call.require(chunk.loss.label_smoothing == 0.0 || chunk.loss.vocab >= chunk.logits.shape[1],
               "smoothing needs the size of the whole vocabulary");
  call.in("targets", chunk.targets, {num_tokens}, DType::int32);
  call.in("loss_weights", chunk.loss_weights, {num_tokens}, DType::float32);
}

class CheckedBackend final : public Backend {
 public:
  explicit CheckedBackend(std::unique_ptr<Backend> inner) : inner_(std::move(inner)) {}

  device::Stream& stream() override { return inner_->stream(); }
  void set_workspace(Tensor workspace) override { inner_->set_workspace(workspace); }

  void fill(Tensor x, float value) override {
    Call("fill").out("x", x, shape_of(x), any_compute, Layout::strided);
    inner_->fill(x, value);
  }

  void copy(Tensor destination, ConstTensor source) override {
    Call call("copy");
    check_pair(call, destination, source, any_compute);
    inner_->copy(destination, source);
  }

  void add(Tensor destination, ConstTensor source) override {
    Call call("add");
    check_pair(call, destination, source, any_compute);
    inner_->add(destination, source);
  }

  void scale(Tensor x, float factor) override {
    Call("scale").out("x", x, shape_of(x), any_compute);
    inner_->scale(x, factor);
  }

  void sum_squares(Tensor result, ConstTensor x) override {
    Call call("sum_squares");
    call.out("result", result, {1}, DType::float64);
    call.in("x", x, shape_of(x), DType::float32);
    call.check_memory();
    inner_->sum_squares(result, x);
  }

  void divide_by_norm(Tensor x, ConstTensor squares, float epsilon) override {
    Call call("divide_by_norm");
    call.out("x", x, shape_of(x), DType::float32);
    call.in("squares", squares, {1}, DType::float64);
    call.check_memory();
    inner_->divide_by_norm(x, squares, epsilon);
  }

  void fill_normal(Tensor x, std::uint64_t seed, std::int64_t first_index, float stddev) override {
    Call call("fill_normal");
    call.out("x", x, shape_of(x), any_compute);
    call.require(first_index >= 0, "first_index is negative");
    inner_->fill_normal(x, seed, first_index, stddev);
  }

  void fill_uniform(Tensor x, std::uint64_t seed, std::int64_t first_index, float bound) override {
    Call call("fill_uniform");
    call.out("x", x, shape_of(x), any_compute);
    call.require(first_index >= 0, "first_index is negative");
    inner_->fill_uniform(x, seed, first_index, bound);
  }

  void add_uniform(Tensor x, std::uint64_t seed, std::int64_t first_index, float bound) override {
    Call call("add_uniform");
    call.out("x", x, shape_of(x), any_compute);
    call.require(first_index >= 0, "first_index is negative");
    inner_->add_uniform(x, seed, first_index, bound);
  }

  void dropout(const Dropout& dropout) override {
    Call call("dropout");
    call.out("out", dropout.out, shape_of(dropout.in), any_compute, Layout::strided);
    call.in("in", dropout.in, shape_of(dropout.in), any_compute, Layout::strided);
    call.in("seed", dropout.seed, {8}, DType::uint8);
    call.require(dropout.probability >= 0.0F && dropout.probability < 1.0F, "probability is not in [0, 1)");
    call.require(dropout.first_index >= 0, "first_index is negative");
    call.require(reinterpret_cast<std::uintptr_t>(dropout.seed.data) % 8 == 0, "the seed is not aligned");
    call.may_be("out", "in");
    call.check_memory();
    inner_->dropout(dropout);
  }

  void embedding_forward(Tensor out, ConstTensor tokens, ConstTensor table, std::int64_t vocab_begin) override {
    Call call("embedding_forward");
    call.require_dims("table", table, 2);
    const DType compute = compute_of(call, "table", table);
    call.in("tokens", tokens, {tokens.shape[0]}, DType::int32);
    call.in("table", table, shape_of(table), compute);
    call.out("out", out, {tokens.shape[0], table.shape[1]}, {compute, DType::float32});
    call.check_memory();
    inner_->embedding_forward(out, tokens, table, vocab_begin);
  }

  void embedding_backward(Tensor dtable, ConstTensor tokens, ConstTensor dout, std::int64_t vocab_begin) override {
    Call call("embedding_backward");
    call.require_dims("dtable", dtable, 2);
    call.in("tokens", tokens, {tokens.shape[0]}, DType::int32);
    call.in("dout", dout, {tokens.shape[0], dtable.shape[1]}, any_compute);
    call.out("dtable", dtable, shape_of(dtable), DType::float32);
    call.check_memory();
    inner_->embedding_backward(dtable, tokens, dout, vocab_begin);
  }

  void rms_norm_forward(Tensor y, Tensor rstd, ConstTensor x, const NormWeight& weight, float epsilon) override {
    Call call("rms_norm_forward");
    check_rms_norm(call, y, x, weight);
    call.out("rstd", rstd, {x.shape[0]}, DType::float32);
    call.check_memory();
    inner_->rms_norm_forward(y, rstd, x, weight, epsilon);
  }

  void add_rms_norm_forward(const AddRmsNormForward& norm) override {
    Call call("add_rms_norm_forward");
    check_rms_norm(call, norm.y, norm.x, norm.weight);
    call.out("sum", norm.sum, shape_of(norm.x), norm.x.dtype);
    call.out("rstd", norm.rstd, {norm.x.shape[0]}, DType::float32);
    call.in("delta", norm.delta, shape_of(norm.x), {norm.x.dtype, DType::float32});
    call.may_be("sum", "x");
    call.may_be("y", "delta");
    call.check_memory();
    inner_->add_rms_norm_forward(norm);
  }

  void rms_norm_apply(const RmsNormApply& norm) override {
    Call call("rms_norm_apply");
    check_rms_norm(call, norm.y, norm.x, norm.weight);
    call.in("rstd", norm.rstd, {norm.x.shape[0]}, DType::float32);
    call.check_memory();
    inner_->rms_norm_apply(norm);
  }

  void rms_norm_backward(const RmsNormBackward& norm) override {
    Call call("rms_norm_backward");
    const ConstTensor& x = norm.x;
    call.require_dims("x", x, 2);
    const DType compute = compute_of(call, "x", x);
    call.in("x", x, shape_of(x), compute);
    call.out("dx", norm.dx, shape_of(x), compute);
    if (!norm.dweight.empty()) call.out("dweight", norm.dweight, {x.shape[1]}, DType::float32);
    call.in("dy", norm.dy, shape_of(x), {compute, DType::float32});
    call.in("rstd", norm.rstd, {x.shape[0]}, DType::float32);
    call.in("weight", norm.weight.tensor, {x.shape[1]}, {compute, DType::float32});
    if (!norm.dresidual.empty()) call.in("dresidual", norm.dresidual, shape_of(x), compute);
    call.may_be("dx", "dresidual");
    call.may_be("dx", "x");
    call.check_memory();
    inner_->rms_norm_backward(norm);
  }

  void split_norm_squares(Tensor squares, ConstTensor x) override {
    check_split_norm_squares(squares, x);
    inner_->split_norm_squares(squares, x);
  }

  void split_norm_forward(const SplitNormForward& norm) override {
    check_split_norm(norm);
    inner_->split_norm_forward(norm);
  }

  void split_norm_dots(const SplitNormDots& norm) override {
    check_split_norm(norm);
    inner_->split_norm_dots(norm);
  }

  void split_norm_backward(const SplitNormBackward& norm) override {
    check_split_norm(norm);
    inner_->split_norm_backward(norm);
  }

  void rope_table(Tensor cosine, Tensor sine, ConstTensor positions, ConstTensor inverse_frequencies,
                  const RopeScale& scale) override {
    Call call("rope_table");
    call.in("positions", positions, {positions.shape[0]}, DType::int32);
    call.in("inverse_frequencies", inverse_frequencies, {inverse_frequencies.shape[0]}, DType::float64);
    call.out("cosine", cosine, {positions.shape[0], inverse_frequencies.shape[0]}, DType::float32);
    call.out("sine", sine, {positions.shape[0], inverse_frequencies.shape[0]}, DType::float32);
    call.check_memory();
    inner_->rope_table(cosine, sine, positions, inverse_frequencies, scale);
  }

  void rope_forward(Tensor out, ConstTensor in, const RopeTable& table) override {
    check_rope("rope_forward", "in", in, "out", out, table);
    inner_->rope_forward(out, in, table);
  }

  void rope_backward(Tensor din, ConstTensor dout, const RopeTable& table) override {
    check_rope("rope_backward", "dout", dout, "din", din, table);
    inner_->rope_backward(din, dout, table);
  }

  void norm_rope_forward(const NormRopeForward& heads) override {
    Call call("norm_rope_forward");
    check_heads(call, "in", heads.in, "out", heads.out);
    check_normed_heads(call, heads.in, heads.weight.tensor, heads.table);
    call.out("rstd", heads.rstd, {heads.in.shape[0], heads.in.shape[1]}, DType::float32);
    call.may_be("out", "in");
    call.check_memory();
    inner_->norm_rope_forward(heads);
  }

  void norm_rope_backward(const NormRopeBackward& heads) override {
    Call call("norm_rope_backward");
    check_heads(call, "in", heads.in, "din", heads.din);
    check_normed_heads(call, heads.in, heads.weight.tensor, heads.table);
    call.in("dout", heads.dout, shape_of(heads.in), heads.in.dtype, Layout::strided);
    call.in("rstd", heads.rstd, {heads.in.shape[0], heads.in.shape[1]}, DType::float32);
    if (!heads.dweight.empty()) call.out("dweight", heads.dweight, {heads.in.shape[2]}, DType::float32);
    call.may_be("din", "dout");
    call.check_memory();
    inner_->norm_rope_backward(heads);
  }

  void matmul(const Matmul& product) override {
    const auto& [a, b, c, transpose_a, transpose_b, accumulate, bias] = product;
    Call call("matmul");
    call.require_dims("a", a, 2);
    call.require_dims("c", c, 2);
    const DType compute = compute_of(call, "a", a);
    const std::int64_t num_rows = c.shape[0], num_columns = c.shape[1], depth = a.shape[transpose_a ? 0 : 1];
    const auto shape = [](bool transpose, std::int64_t rows, std::int64_t columns) {
      return transpose ? std::vector{columns, rows} : std::vector{rows, columns};
    };
    call.in("a", a, shape(transpose_a, num_rows, depth), compute, Layout::strided);
    call.in("b", b, shape(transpose_b, depth, num_columns), compute, Layout::strided);
    call.out("c", c, shape_of(c), {compute, DType::float32}, Layout::strided);
    if (!bias.empty()) call.in("bias", bias, {num_columns}, compute);
    call.check_memory();
    inner_->matmul(product);
  }

  void bias_backward(Tensor dbias, ConstTensor dy) override {
    Call call("bias_backward");
    call.require_dims("dy", dy, 2);
    call.in("dy", dy, shape_of(dy), any_compute, Layout::strided);
    call.out("dbias", dbias, {dy.shape[1]}, DType::float32);
    call.check_memory();
    inner_->bias_backward(dbias, dy);
  }

  void scale_columns(const ScaleColumns& columns) override {
    check_scale_columns(columns);
    inner_->scale_columns(columns);
  }

  void add_column_products(const ColumnProducts& products) override {
    check_column_products(products);
    inner_->add_column_products(products);
  }

  void add_row_products(const RowProducts& products) override {
    check_row_products(products);
    inner_->add_row_products(products);
  }

  void magnitude_factors(const MagnitudeFactors& factors) override {
    check_magnitude_factors(factors);
    inner_->magnitude_factors(factors);
  }

  void read_four_bits(const ReadFourBits& read) override {
    check_read_four_bits(read);
    inner_->read_four_bits(read);
  }

  void find_fp8_scale(const RoundToFp8& round) override {
    check_find_fp8_scale(round);
    inner_->find_fp8_scale(round);
  }

  void round_to_fp8(const RoundToFp8& round) override {
    check_round_to_fp8(round);
    inner_->round_to_fp8(round);
  }

  void raise_fp8_scales(const Fp8Run& run) override {
    check_raise_fp8_scales(run);
    inner_->raise_fp8_scales(run);
  }

  void round_fp8_run(const Fp8Run& run) override {
    check_round_fp8_run(run);
    inner_->round_fp8_run(run);
  }

  void arrange_fp8(const ArrangeFp8& arrange) override {
    check_arrange_fp8(arrange);
    inner_->arrange_fp8(arrange);
  }

  void fp8_matmul(const Fp8Matmul& product) override {
    check_fp8_matmul(product);
    inner_->fp8_matmul(product);
  }

  std::unique_ptr<AttentionPlan> plan_attention(const std::vector<sequence::AttentionSpan>& spans,
                                                std::int64_t num_queries, std::int64_t num_keys) override {
    check_plan_attention(spans, num_queries, num_keys);
    return std::make_unique<SizedPlan>(inner_->plan_attention(spans, num_queries, num_keys), num_queries, num_keys);
  }

  void attention_forward(const AttentionForward& attention) override {
    inner_->attention_forward(with_plan(attention, check_attention_forward(attention)));
  }

  void attention_delta(Tensor delta, ConstTensor out, ConstTensor dout) override {
    check_attention_delta(delta, out, dout);
    inner_->attention_delta(delta, out, dout);
  }

  void attention_backward(const AttentionBackward& attention) override {
    inner_->attention_backward(with_plan(attention, check_attention_backward(attention)));
  }

  void expect_attention(const std::vector<sequence::AttentionSpan>& spans, std::int64_t num_queries,
                        std::int64_t num_keys) override {
    inner_->expect_attention(spans, num_queries, num_keys);
  }
  void set_attention_repeats(bool repeats) override { inner_->set_attention_repeats(repeats); }

  [[nodiscard]] LibraryCalls library_calls() const override { return inner_->library_calls(); }

  void attention_sinks_backward(const AttentionSinksBackward& attention) override {
    check_attention_sinks_backward(attention);
    inner_->attention_sinks_backward(attention);
  }

  void swiglu_forward(Tensor act, ConstTensor gate_up) override {
    Call call("swiglu_forward");
    call.require_dims("act", act, 2);
    const DType compute = compute_of(call, "act", act);
    call.out("act", act, shape_of(act), compute);
    call.in("gate_up", gate_up, {act.shape[0], 2 * act.shape[1]}, compute);
    call.check_memory();
    inner_->swiglu_forward(act, gate_up);
  }

  void swiglu_backward(Tensor dgate_up, Tensor act, ConstTensor dact, ConstTensor gate_up) override {
    Call call("swiglu_backward");
    call.require_dims("dact", dact, 2);
    const DType compute = compute_of(call, "dact", dact);
    call.in("dact", dact, shape_of(dact), compute);
    call.out("act", act, shape_of(dact), compute);
    call.in("gate_up", gate_up, {dact.shape[0], 2 * dact.shape[1]}, compute);
    call.out("dgate_up", dgate_up, {dact.shape[0], 2 * dact.shape[1]}, compute);
    call.may_be("dgate_up", "gate_up");
    call.may_be("act", "dact");
    call.check_memory();
    inner_->swiglu_backward(dgate_up, act, dact, gate_up);
  }

  void router_forward(const RouterForward& router) override {
    check_router_forward(router);
    inner_->router_forward(router);
  }

  void router_backward(const RouterBackward& router) override {
    check_router_backward(router);
    inner_->router_backward(router);
  }

  void router_sums(const RouterSums& sums) override {
    check_router_sums(sums);
    inner_->router_sums(sums);
  }

  void router_sums_backward(const RouterSumsBackward& sums) override {
    check_router_sums_backward(sums);
    inner_->router_sums_backward(sums);
  }

  void expert_order(const ExpertOrder& order) override {
    check_expert_order(order);
    inner_->expert_order(order);
  }

  void gather_tokens(const GatherTokens& gather) override {
    check_gather_tokens(gather);
    inner_->gather_tokens(gather);
  }

  void combine_rows(const CombineRows& combine) override {
    check_combine_rows(combine);
    inner_->combine_rows(combine);
  }

  void combine_weights_backward(const CombineWeightsBackward& combine) override {
    check_combine_weights_backward(combine);
    inner_->combine_weights_backward(combine);
  }

  void grouped_matmul(const GroupedMatmul& grouped) override {
    check_grouped_matmul(grouped);
    inner_->grouped_matmul(grouped);
  }

  void grouped_weight_gradient(const GroupedWeightGradient& grouped) override {
    check_grouped_weight_gradient(grouped);
    inner_->grouped_weight_gradient(grouped);
  }

  void grouped_bias_gradient(const GroupedBiasGradient& grouped) override {
    check_grouped_bias_gradient(grouped);
    inner_->grouped_bias_gradient(grouped);
  }

  void gated_forward(const GatedForward& gated) override {
    check_gated_forward(gated);
    inner_->gated_forward(gated);
  }

  void gated_backward(const GatedBackward& gated) override {
    check_gated_backward(gated);
    inner_->gated_backward(gated);
  }

  void soft_cap(Tensor x, float cap) override {
    Call call("soft_cap");
    call.out("x", x, shape_of(x), DType::float32);
    call.require(cap > 0.0F, "cap is not above 0");
    inner_->soft_cap(x, cap);
  }

  void cross_entropy_max(const CrossEntropy& chunk) override {
    Call call("cross_entropy_max");
    check_chunk(call, chunk);
    call.check_memory();
    inner_->cross_entropy_max(chunk);
  }

  void cross_entropy_partials(const CrossEntropy& chunk) override {
    Call call("cross_entropy_partials");
    check_chunk(call, chunk);
    call.check_memory();
    inner_->cross_entropy_partials(chunk);
  }

  void cross_entropy_finish(const CrossEntropy& chunk, Tensor dlogits, double gradient_scale, Tensor metrics) override {
    Call call("cross_entropy_finish");
    check_chunk(call, chunk);
    call.out("metrics", metrics, {4}, DType::float64);
    if (!dlogits.empty()) call.out("dlogits", dlogits, shape_of(chunk.logits), any_compute);
    call.may_be("dlogits", "logits");
    call.check_memory();
    inner_->cross_entropy_finish(chunk, dlogits, gradient_scale, metrics);
  }

  void update(const Update& step) override {
    check_update("update", step);
    inner_->update(step);
  }

  void update_blockwise(const BlockwiseUpdate& step) override {
    check_blockwise_update("update_blockwise", step);
    inner_->update_blockwise(step);
  }

  void raise_scales(const BlockwiseUpdate& step) override {
    check_raised_scales("raise_scales", step);
    inner_->raise_scales(step);
  }

  void sum_squares_by_dim(const SquareSums& sums) override {
    check_square_sums("sum_squares_by_dim", sums);
    inner_->sum_squares_by_dim(sums);
  }

  void update_factors(const MomentFactors& step) override {
    check_moment_factors("update_factors", step);
    inner_->update_factors(step);
  }

  void add_direction_squares(const FactoredUpdate& step) override {
    check_factored_update("add_direction_squares", step, false);
    inner_->add_direction_squares(step);
  }

  void update_factored(const FactoredUpdate& step) override {
    check_factored_update("update_factored", step, true);
    inner_->update_factored(step);
  }

 private:
  static void check_normed_heads(Call& call, const ConstTensor& in, const ConstTensor& weight, const RopeTable& table) {
    const std::int64_t head_dim = in.shape[2];
    call.require(head_dim <= max_head_dim, fmt::format("in has a head dim above {}", max_head_dim));
    call.in("weight", weight, {head_dim}, {in.dtype, DType::float32});
    if (!table.cosine.empty() || !table.sine.empty()) check_table(call, table, in, in.shape[2] / 2);
  }

  std::unique_ptr<Backend> inner_;
};

}  // namespace

std::unique_ptr<Backend> make_backend(std::unique_ptr<Backend> inner) {
  return std::make_unique<CheckedBackend>(std::move(inner));
}

}  // namespace sft::ops::checked
