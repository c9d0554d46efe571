// SPDX-License-Identifier: Apache-2.0
#include "ops/backends.hpp"

#include <omp.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/cpu/attention_plan.hpp"
#include "ops/cpu/grouped_matmul.hpp"
#include "ops/cpu/kernel_arguments.hpp"
#include "ops/cpu/matmul.hpp"
#include "ops/cpu/planning.hpp"
#include "ops/expert_tensors.hpp"
#include "ops/factored_tensors.hpp"
#include "ops/fp8_tensors.hpp"
#include "ops/random_bits.hpp"
#include "ops/tensor_arguments.hpp"
#include "sft/core/activity.hpp"
#include "sft/core/ensure.hpp"

namespace sft::ops::cpu {
namespace {

class CpuBackend final : public Backend {
 public:
  CpuBackend(device::Device& device, device::Stream& stream, Isa isa, const Kernels& kernels)
      : device_(device), stream_(stream), kernels_(kernels), products_(isa), grouped_(isa) {}

  device::Stream& stream() override { return stream_; }

  void set_workspace(Tensor workspace) override {
    SFT_ENSURE(workspace.size_bytes() >= workspace_bytes(omp_get_max_threads(), {}, {}),
               "ops: the workspace is as large as planned");
    workspace_ = workspace;
  }

  void run(const Call& call) override {
    stream_.synchronize();
    std::visit([this](const auto& op) { execute(op); }, call);
  }

  std::unique_ptr<AttentionPlan> plan_attention(const std::vector<sequence::AttentionSpan>& spans,
                                                std::int64_t num_queries, std::int64_t num_keys) override {
    return std::make_unique<TilePlan>(spans, num_queries, num_keys);
  }

 private:
  void execute(const Fill& op) {
    const auto& [x, value] = op;
    kernels_.fill(x.is_contiguous() ? in_rows(x) : view_of(x), value);
  }

  void execute(const Copy& op) {
    const auto& [destination, source] = op;
    SFT_ENSURE(destination.num_elements() == source.num_elements(), "copy: shapes fit");
    const bool flat = destination.is_contiguous() && source.is_contiguous();
    kernels_.copy(flat ? flat_view_of(destination) : view_of(destination),
                  flat ? flat_view_of(source) : view_of(source));
  }

  void execute(const Add& op) {
    const auto& [destination, source] = op;
    SFT_ENSURE(destination.num_elements() == source.num_elements(), "add: shapes fit");
    const bool flat = destination.is_contiguous() && source.is_contiguous();
    kernels_.add(flat ? flat_view_of(destination) : view_of(destination),
                 flat ? flat_view_of(source) : view_of(source));
  }

  void execute(const Scale& op) {
    const auto& [x, factor] = op;
    kernels_.scale(flat_view_of(x), factor);
  }

  void execute(const SumSquares& op) {
    const auto& [result, x] = op;
    *result.as<double>() += kernels_.sum_squares(floats_of(x), x.num_elements());
  }

  void execute(const DivideByNorm& op) {
    const auto& [x, squares, epsilon] = op;
    SFT_ENSURE(x.dtype == DType::float32, "divide_by_norm: float32 expected");
    const double norm = std::max(std::sqrt(*squares.as<double>()), static_cast<double>(epsilon));
    kernels_.scale(flat_view_of(x), static_cast<float>(1.0 / norm));
  }

  void execute(const FillNormal& op) {
    const auto& [x, seed, first_index, stddev] = op;
    kernels_.fill_normal(flat_view_of(x), seed, first_index, stddev);
  }

  void execute(const FillUniform& op) {
    const auto& [x, seed, first_index, bound] = op;
    kernels_.fill_uniform(flat_view_of(x), seed, first_index, bound);
  }

  void execute(const AddUniform& op) {
    const auto& [x, seed, first_index, bound] = op;
    kernels_.add_uniform(flat_view_of(x), seed, first_index, bound);
  }

  void execute(const Dropout& dropout) {
    const auto& [out, in, probability, seed, number, part, first_index, accumulate] = dropout;
    SFT_ENSURE(out.shape[0] == in.shape[0] && out.row_elements() == in.row_elements(), "dropout: shapes fit");
    const bool flat = out.is_contiguous() && in.is_contiguous();
    kernels_.dropout(flat ? flat_view_of(out) : view_of(out), flat ? flat_view_of(in) : view_of(in), probability,
                     seed_of_op(*static_cast<const std::uint64_t*>(seed.data), number, part), first_index, accumulate);
  }

  void execute(const EmbeddingForward& op) {
    const auto& [out, tokens, table, vocab_begin] = op;
    kernels_.embedding_forward(view_of(out), tokens.as<std::int32_t>(), view_of(table), vocab_begin);
  }

  void execute(const EmbeddingBackward& op) {
    const auto& [dtable, tokens, dout, vocab_begin] = op;
    kernels_.embedding_backward(view_of(dtable), tokens.as<std::int32_t>(), view_of(dout), vocab_begin);
  }

  void execute(const RmsNormForward& op) {
    const auto& [y, rstd, x, weight, epsilon] = op;
    kernels_.rms_norm_forward(view_of(y), floats_of(rstd), view_of(x), float32_weight(weight), epsilon);
  }

  void execute(const AddRmsNormForward& norm) {
    kernels_.add_rms_norm_forward(view_of(norm.sum), view_of(norm.y), floats_of(norm.rstd), view_of(norm.x),
                                  view_of(norm.delta), float32_weight(norm.weight), norm.epsilon);
  }

  void execute(const RmsNormApply& norm) {
    kernels_.rms_norm_apply(view_of(norm.y), view_of(norm.x), floats_of(norm.rstd), float32_weight(norm.weight));
  }

  void execute(const RmsNormBackward& norm) {
    kernels_.rms_norm_backward(view_of(norm.dx), floats_of(norm.dweight), view_of(norm.dy), view_of(norm.x),
                               floats_of(norm.rstd), float32_weight(norm.weight), view_of(norm.dresidual),
                               scratch_after(norm.weight));
  }

  void execute(const SplitNormSquares& op) {
    const auto& [squares, x] = op;
    kernels_.split_norm_squares(floats_of(squares), view_of(x));
  }

  void execute(const SplitNormForward& norm) {
    kernels_.split_norm_forward(view_of(norm.y), floats_of(norm.rstd), view_of(norm.x), floats_of(norm.squares),
                                float32_weight(norm.weight), norm.all_columns, norm.epsilon);
  }

  void execute(const SplitNormDots& norm) {
    kernels_.split_norm_dots(floats_of(norm.dots), floats_of(norm.dweight), view_of(norm.dy), view_of(norm.x),
                             floats_of(norm.rstd), float32_weight(norm.weight), scratch_after(norm.weight));
  }

  void execute(const SplitNormBackward& norm) {
    kernels_.split_norm_backward(view_of(norm.dx), view_of(norm.dy), view_of(norm.x), floats_of(norm.rstd),
                                 floats_of(norm.dots), float32_weight(norm.weight), norm.all_columns);
  }

  void execute(const WriteRopeTable& op) {
    const auto& [cosine, sine, positions, inverse_frequencies, scale] = op;
    kernels_.rope_table(floats_of(cosine), floats_of(sine), positions.as<std::int32_t>(),
                        inverse_frequencies.as<double>(), positions.num_elements(), inverse_frequencies.num_elements(),
                        {scale.factor, scale.beta, scale.length});
  }

  void execute(const RopeForward& op) {
    const auto& [out, in, table] = op;
    kernels_.rope_forward(view_of(out), view_of(in), floats_of(table.cosine), floats_of(table.sine), in.shape[2],
                          table.cosine.shape[1]);
  }

  void execute(const RopeBackward& op) {
    const auto& [din, dout, table] = op;
    kernels_.rope_backward(view_of(din), view_of(dout), floats_of(table.cosine), floats_of(table.sine), din.shape[2],
                           table.cosine.shape[1]);
  }

  void execute(const NormRopeForward& heads) {
    check_head_dim(heads.in);
    kernels_.norm_rope_forward(view_of(heads.out), floats_of(heads.rstd), view_of(heads.in),
                               float32_weight(heads.weight), floats_of(heads.table.cosine), floats_of(heads.table.sine),
                               heads.in.shape[2], heads.epsilon);
  }

  void execute(const NormRopeBackward& heads) {
    check_head_dim(heads.in);
    kernels_.norm_rope_backward(view_of(heads.din), floats_of(heads.dweight), view_of(heads.dout), view_of(heads.in),
                                floats_of(heads.rstd), float32_weight(heads.weight), floats_of(heads.table.cosine),
                                floats_of(heads.table.sine), heads.in.shape[2], scratch_after(heads.weight));
  }

  void execute(const Matmul& product) {
    products_.run(product, workspace_);
    note_progress();
    device_.progress();
  }

  void execute(const BiasBackward& op) {
    const auto& [dbias, dy] = op;
    SFT_ENSURE(std::max(column_sum_floats, dy.shape[1]) <= scratch().num_floats, "ops: the workspace holds a row");
    kernels_.column_sums(floats_of(dbias), view_of(dy), scratch());
  }

  void execute(const ScaleColumns& columns) {
    kernels_.scale_columns(view_of(columns.out), view_of(columns.in), floats_of(columns.factors), columns.shift,
                           columns.bias.empty() ? nullptr : float32_weight(columns.bias), columns.accumulate);
  }

  void execute(const AddColumnProducts& products) {
    kernels_.add_column_products(floats_of(products.sums), view_of(products.a), view_of(products.b),
                                 floats_of(products.factors));
  }

  void execute(const AddRowProducts& products) {
    kernels_.add_row_products(floats_of(products.sums), view_of(products.a), view_of(products.b), products.factor);
  }

  void execute(const MagnitudeFactors& factors) {
    kernels_.magnitude_factors(floats_of(factors.factors), floats_of(factors.inverse_norms),
                               flat_view_of(factors.magnitudes), floats_of(factors.squares));
  }

  void execute(const ReadFourBits& read) { kernels_.read_four_bits(view_of(read.out), four_bit_arguments_of(read)); }

  void execute(const FindFp8Scale& round) { kernels_.find_fp8_scale(fp8_view_of(round.out), fp8_source_of(round)); }

  void execute(const RoundToFp8& round) { kernels_.round_to_fp8(fp8_rounding_of(round)); }

  void execute(const RaiseFp8Scales& op) { kernels_.raise_fp8_scales(fp8_run_view_of(op.run)); }

  void execute(const RoundFp8Run& op) { kernels_.round_fp8_run(fp8_run_view_of(op.run)); }

  void execute(const ArrangeFp8& arrange) { kernels_.arrange_fp8(fp8_arrangement_of(arrange)); }

  void execute(const Fp8Matmul& product) {
    products_.run_fp8(product, workspace_);
    note_progress();
    device_.progress();
  }

  void execute(const AttentionForward& attention) {
    const TilePlan& plan = plan_of(attention);
    AttentionArguments arguments = attention_arguments(attention, plan);
    arguments.lse = floats_of(attention.lse);
    arguments.out = view_of(attention.out);
    arguments.merges = attention.merge;
    SFT_ENSURE(!attention.merge || !arguments.out.is_bf16, "ops: partial attention results merge in float32");
    if (!attention.merge) {
      fill_rows(attention.out, plan.idle_queries, 0.0F);
      fill_rows(attention.lse, plan.idle_queries, -std::numeric_limits<float>::infinity());
    }
    SFT_ENSURE(attention.sinks.empty() || !attention.merge, "ops: sinks belong to the first of the calls that merge");
    if (!attention.sinks.empty()) arguments.sinks = flat_view_of(attention.sinks);
    kernels_.attention_forward(arguments, attention_scratch());
    note_progress();
    device_.progress();
  }

  void execute(const AttentionDelta& op) {
    const auto& [delta, out, dout] = op;
    kernels_.attention_delta(floats_of(delta), view_of(out), view_of(dout), out.shape[2]);
  }

  void execute(const AttentionBackward& attention) {
    const TilePlan& plan = plan_of(attention);
    AttentionArguments arguments = attention_arguments(attention, plan);
    arguments.final_lse = floats_of(attention.lse);
    arguments.dout = view_of(attention.dout);
    arguments.delta = floats_of(attention.delta);
    arguments.dq = view_of(attention.dq);
    arguments.dk = view_of(attention.dk);
    arguments.dv = view_of(attention.dv);
    arguments.adds_to_dq = attention.accumulate_dq;
    arguments.adds_to_dkv = attention.accumulate_dkv;
    SFT_ENSURE(attention.dk.dtype == attention.dv.dtype, "ops: dk and dv have one dtype");
    SFT_ENSURE(!attention.accumulate_dq || !arguments.dq.is_bf16, "ops: parts of dq add up in float32");
    SFT_ENSURE(!attention.accumulate_dkv || !arguments.dk.is_bf16, "ops: parts of dk and dv add up in float32");
    if (arguments.dk.is_bf16) arguments.key_sums = key_sum_scratch(arguments, plan);
    if (!attention.accumulate_dq) fill_rows(attention.dq, plan.idle_queries, 0.0F);
    if (!attention.accumulate_dkv) {
      fill_rows(attention.dk, plan.idle_keys, 0.0F);
      fill_rows(attention.dv, plan.idle_keys, 0.0F);
    }
    kernels_.attention_backward(arguments, attention_scratch());
    note_progress();
    device_.progress();
  }

  void execute(const AttentionSinksBackward& attention) {
    kernels_.attention_sinks_backward(floats_of(attention.dsinks), flat_view_of(attention.sinks),
                                      floats_of(attention.lse), floats_of(attention.delta), attention.lse.shape[0]);
  }

  void execute(const RouterForward& router) {
    kernels_.router_forward(router_arguments(router.rule, router.logits, router.correction, router.experts),
                            int32s_of(router.experts), floats_of(router.weights));
  }

  void execute(const RouterBackward& router) {
    kernels_.router_backward(router_arguments(router.rule, router.logits, {}, router.experts),
                             floats_of(router.dlogits), int32s_of(router.experts), floats_of(router.dweights));
  }

  void execute(const RouterSums& sums) {
    SFT_ENSURE(column_sum_floats <= scratch().num_floats, "ops: set_workspace first");
    kernels_.router_sums(arguments_of(sums), scratch());
  }

  void execute(const RouterSumsBackward& sums) { kernels_.router_sums_backward(arguments_of(sums)); }

  void execute(const ExpertOrder& order) { kernels_.expert_order(arguments_of(order)); }

  void execute(const GatherTokens& gather) { kernels_.gather_tokens(arguments_of(gather)); }

  void execute(const CombineRows& combine) { kernels_.combine_rows(arguments_of(combine)); }

  void execute(const CombineWeightsBackward& combine) { kernels_.combine_weights_backward(arguments_of(combine)); }

  void execute(const GroupedMatmul& grouped) {
    SFT_ENSURE(are_offsets(grouped.offsets, grouped.b.shape[0], grouped.a.shape[0]), "ops: offsets are of the rows");
    run_products(grouped, grouped.b.shape[0]);
  }

  void execute(const GroupedWeightGradient& grouped) {
    SFT_ENSURE(are_offsets(grouped.offsets, grouped.dweight.shape[0], grouped.x.shape[0]),
               "ops: offsets are of the rows");
    run_products(grouped, grouped.dweight.shape[0]);
  }

  void execute(const GroupedBiasGradient& grouped) {
    const std::int64_t num_experts = grouped.dbias.shape[0];
    SFT_ENSURE(are_offsets(grouped.offsets, num_experts, grouped.dy.shape[0]), "ops: offsets are of the rows");
    for (std::int64_t e = 0; e < num_experts; ++e) {
      const BiasBackward gradient = bias_gradient_of(grouped, e);
      if (!gradient.dy.empty()) execute(gradient);
    }
  }

  void execute(const GatedForward& gated) {
    kernels_.gated_forward(gated.rule, view_of(gated.act), view_of(gated.gate_up));
  }

  void execute(const GatedBackward& gated) {
    kernels_.gated_backward(gated.rule, view_of(gated.dgate_up), view_of(gated.act), view_of(gated.dact),
                            view_of(gated.gate_up));
  }

  void execute(const SoftCap& op) {
    const auto& [x, cap] = op;
    SFT_ENSURE(x.dtype == DType::float32, "soft_cap: float32 expected");
    kernels_.soft_cap(view_of(x), cap);
  }

  void execute(const CrossEntropyMax& op) {
    const auto& chunk = op.chunk;
    kernels_.cross_entropy_max(arguments_of(chunk));
  }

  void execute(const CrossEntropyPartials& op) {
    const auto& chunk = op.chunk;
    kernels_.cross_entropy_partials(arguments_of(chunk));
  }

  void execute(const CrossEntropyFinish& op) {
    const auto& [chunk, dlogits, gradient_scale, metrics] = op;
    const CrossEntropyArguments arguments = arguments_of(chunk);
    auto* sums = metrics.as<double>();
    for (std::int64_t t = 0; t < arguments.rows; ++t) {
      const double weight = arguments.weights[t];
      if (!(weight > 0.0)) continue;
      const double sum_exp = arguments.sum_exp[t], largest = arguments.max[t], logit = arguments.target_logit[t];
      const double log_sum = std::log(sum_exp);
      const double nll = log_sum + (largest - logit);
      const double mean_nll =
          arguments.sum_logit == nullptr ? 0.0 : log_sum - arguments.sum_logit[t] * arguments.inverse_vocab;
      sums[0] += weight * (arguments.dft ? nll * std::exp(-nll)
                                         : (1.0 - arguments.smoothing) * nll + arguments.smoothing * mean_nll);
      sums[1] += 1.0;
      sums[2] += logit >= largest ? 1.0 : 0.0;
      sums[3] += log_sum - arguments.sum_exp_logit[t] / sum_exp;
    }
    if (dlogits.data != nullptr) kernels_.cross_entropy_gradient(arguments, view_of(dlogits), gradient_scale);
  }

  void execute(const Update& step) {
    UpdateArguments arguments = arguments_of_update(step);
    for (std::size_t i = 0; i < step.state.size(); ++i) {
      if (step.state[i].empty()) continue;
      const View view = flat_view_of(step.state[i]);
      arguments.state[i] = view.data;
      arguments.has_bf16_state = view.is_bf16;
    }
    kernels_.update(arguments);
  }

  void execute(const UpdateBlockwise& op) {
    const auto& step = op.step;
    kernels_.update_blockwise(arguments_of_blocks(step));
  }

  void execute(const RaiseScales& op) {
    const auto& step = op.step;
    kernels_.raise_scales(arguments_of_blocks(step));
  }

  void execute(const SumSquaresByDim& sums) { kernels_.sum_squares_by_dim(arguments_of(sums)); }

  void execute(const MomentFactors& step) { kernels_.update_factors(arguments_of(step)); }

  void execute(const AddDirectionSquares& op) {
    const auto& step = op.step;
    const FactoredArguments arguments = arguments_of(step);
    *arguments.squares += kernels_.direction_squares(arguments);
  }

  void execute(const UpdateFactored& op) {
    const auto& step = op.step;
    kernels_.update_factored(arguments_of(step));
  }

  /// The products of all experts, of which there are many in few calls: other streams progress behind them.
  template <class Grouped>
  void run_products(const Grouped& grouped, std::int64_t num_experts) {
    std::vector<Matmul> products;
    products.reserve(num_experts);
    for (std::int64_t e = 0; e < num_experts; ++e) products.push_back(product_of(grouped, e));
    grouped_.run(products, products_, workspace_);
    note_progress();
    device_.progress();
  }

  [[nodiscard]] Scratch scratch() const {
    return {workspace_.as<float>(), static_cast<std::int64_t>(workspace_.size_bytes() / sizeof(float))};
  }

  /// Row weights in float32 with their offset, at the start of the workspace where they are otherwise.
  [[nodiscard]] const float* float32_weight(const NormWeight& weight) const {
    const ConstTensor& tensor = weight.tensor;
    if (tensor.dtype == DType::float32 && weight.offset == 0.0F) return floats_of(tensor);
    const std::int64_t size = tensor.num_elements();
    SFT_ENSURE(size <= scratch().num_floats, "ops: the workspace holds the weight");
    kernels_.copy(flat_view_of(Tensor(workspace_.data, DType::float32, {size})), flat_view_of(tensor));
    auto* const values = workspace_.as<float>();
    for (std::int64_t i = 0; i < size; ++i) values[i] += weight.offset;
    return values;
  }

  /// The workspace behind a converted weight.
  [[nodiscard]] Scratch scratch_after(const NormWeight& weight) const {
    const std::int64_t size = weight.tensor.num_elements();
    const Scratch all = scratch();
    SFT_ENSURE(size + std::max(column_sum_floats, size) <= all.num_floats, "ops: the workspace holds the weight");
    return {all.data + size, all.num_floats - size};
  }

  [[nodiscard]] Scratch attention_scratch() const {
    const std::int64_t num_threads =
        std::min<std::int64_t>(omp_get_max_threads(), scratch().num_floats / attention_scratch_floats);
    SFT_ENSURE(num_threads > 0, "ops: set_workspace first");
    return {workspace_.as<float>(), num_threads * attention_scratch_floats};
  }

  /// The workspace behind the tiles of all threads, for the sums that are rounded into dk and dv.
  [[nodiscard]] KeySumScratch key_sum_scratch(const AttentionArguments& arguments, const TilePlan& plan) const {
    const Scratch tiles = attention_scratch();
    const std::int64_t num_threads = tiles.num_floats / attention_scratch_floats;
    const std::int64_t row_floats = 2 * arguments.head_dim;  // of dk and dv
    const std::int64_t capacity = (scratch().num_floats - tiles.num_floats) / row_floats;
    const bool is_per_thread = num_threads * plan.longest_lane <= capacity;
    SFT_ENSURE(is_per_thread || arguments.num_kv_heads * plan.num_keys() <= capacity,
               "ops: the workspace has room for attention_backward");
    return {tiles.data + tiles.num_floats, is_per_thread, plan.longest_lane};
  }

  void fill_rows(const Tensor& x, const std::vector<RowRun>& runs, float value) const {
    for (const RowRun& run : runs) kernels_.fill(view_of(x.rows(run.begin, run.count)), value);
  }

  device::Device& device_;
  device::Stream& stream_;
  const Kernels& kernels_;
  MatmulEngine products_;
  GroupedMatmulEngine grouped_;
  Tensor workspace_;
};

}  // namespace

std::unique_ptr<Backend> make_backend(device::Device& device, device::Stream& stream, Isa isa) {
  return make_backend(device, stream, isa, kernels_of(isa));
}

std::unique_ptr<Backend> make_backend(device::Device& device, device::Stream& stream, Isa isa, const Kernels& kernels) {
  return std::make_unique<CpuBackend>(device, stream, isa, kernels);
}

}  // namespace sft::ops::cpu
