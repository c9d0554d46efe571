// SPDX-License-Identifier: Apache-2.0
#include "ops/backends.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "ops/cuda/attention_calls.hpp"
#include "ops/cuda/attention_plan.hpp"
#include "ops/cuda/cudnn/attention.hpp"
#include "ops/cuda/fp8_matmul.hpp"
#include "ops/cuda/grouped_matmul.hpp"
#include "ops/cuda/kernel_arguments.hpp"
#include "ops/cuda/kernels/kernels.hpp"
#include "ops/cuda/matmul.hpp"
#include "ops/cuda/planning.hpp"
#include "ops/cuda/view.hpp"
#include "ops/expert_tensors.hpp"
#include "ops/factored_tensors.hpp"
#include "ops/fp8_tensors.hpp"
#include "sft/core/ensure.hpp"
#include "sft/core/error.hpp"

namespace sft::ops::cuda {
namespace {

static_assert(sum_squares_bytes <= step_workspace_bytes);

class CudaBackend final : public Backend {
 public:
  CudaBackend(device::Stream& stream, AttentionKernels attention, const MatmulAlgorithms* algorithms)
      : CudaBackend(stream) {
    uses_cudnn_ = is_of_library(attention);
    in_order_ = sums_in_order(attention);
    for_hopper_ = attention == AttentionKernels::hopper;
    products_.emplace(native_, ProductLimits{}, algorithms);
    fp8_products_.emplace(native_, ProductLimits{}, algorithms);
    scratch_.num_bytes = scratch_bytes;
  }
  /// For what ends a step (ops::make_step_backend).
  explicit CudaBackend(device::Stream& stream)
      : stream_(stream), native_(static_cast<cudaStream_t>(stream.native())), grouped_(native_) {
    scratch_.num_bytes = step_workspace_bytes;
  }

  device::Stream& stream() override { return stream_; }

  void set_workspace(Tensor workspace) override {
    const std::size_t own_bytes = scratch_.num_bytes;
    SFT_ENSURE(workspace.size_bytes() >= own_bytes, "ops: the workspace is as large as planned");
    SFT_ENSURE(reinterpret_cast<std::uintptr_t>(workspace.data) % PlanPool::granularity_bytes == 0,
               "ops: the workspace begins at a multiple of 256 bytes");
    scratch_.data = workspace.data;
    plans_.emplace(static_cast<std::byte*>(workspace.data) + own_bytes, workspace.size_bytes() - own_bytes);
    if (uses_cudnn_) cudnn_.emplace(*plans_, native_, in_order_);
  }

  void run(const Call& call) override {
    std::visit([this](const auto& op) { execute(op); }, call);
  }

  std::unique_ptr<AttentionPlan> plan_attention(const std::vector<sequence::AttentionSpan>& spans,
                                                std::int64_t num_queries, std::int64_t num_keys) override {
    SFT_ENSURE(plans_.has_value(), "ops: set_workspace first");
    const auto documents = cudnn_ ? cudnn::find_documents(spans, num_queries, num_keys) : std::nullopt;
    if (!documents) return plan_merging(spans, num_queries, num_keys, /*is_of_host=*/false);
    const bool is_of_host = !documents->rest.empty() || documents->sizes(num_queries, num_keys).are_tails();
    auto plan = make_plan(spans, num_queries, num_keys, is_of_host);
    std::unique_ptr<TilePlan> rest;
    if (!documents->rest.empty()) rest = plan_merging(documents->rest, num_queries, num_keys, is_of_host);
    plan->set_documents(
        std::make_unique<cudnn::Documents>(*plans_, *documents, num_queries, num_keys, cudnn_->rows(), native_),
        std::move(rest));
    return plan;
  }

  void expect_attention(const std::vector<sequence::AttentionSpan>& spans, std::int64_t num_queries,
                        std::int64_t num_keys) override {
    if (!cudnn_) return;
    if (const auto documents = cudnn::find_documents(spans, num_queries, num_keys)) {
      cudnn_->expect(documents->sizes(num_queries, num_keys));
    }
  }

  void set_attention_repeats(bool repeats) override { attention_repeats_ = repeats; }

  [[nodiscard]] LibraryCalls library_calls() const override { return cudnn_ ? cudnn_->calls() : LibraryCalls{}; }

 private:
  void execute(const Fill& op) {
    cuda::fill(op.x.is_contiguous() ? flat_view_of(op.x) : view_of(op.x), op.value, native_);
  }

  void execute(const Copy& op) {
    const auto& [destination, source] = op;
    SFT_ENSURE(destination.num_elements() == source.num_elements(), "copy: shapes fit");
    const bool flat = destination.is_contiguous() && source.is_contiguous();
    cuda::copy(flat ? flat_view_of(destination) : view_of(destination), flat ? flat_view_of(source) : view_of(source),
               native_);
  }

  void execute(const Add& op) {
    const auto& [destination, source] = op;
    SFT_ENSURE(destination.num_elements() == source.num_elements(), "add: shapes fit");
    const bool flat = destination.is_contiguous() && source.is_contiguous();
    cuda::add(flat ? flat_view_of(destination) : view_of(destination), flat ? flat_view_of(source) : view_of(source),
              native_);
  }

  void execute(const Scale& op) { cuda::scale(flat_view_of(op.x), op.factor, native_); }

  void execute(const SumSquares& op) {
    cuda::sum_squares(op.result.as<double>(), floats_of(op.x), op.x.num_elements(), scratch(sum_squares_bytes),
                      native_);
  }

  void execute(const DivideByNorm& op) {
    const auto& [x, squares, epsilon] = op;
    SFT_ENSURE(x.dtype == DType::float32, "divide_by_norm: float32 expected");
    cuda::divide_by_norm(flat_view_of(x), squares.as<double>(), epsilon, native_);
  }

  void execute(const FillNormal& op) {
    cuda::fill_normal(flat_view_of(op.x), op.seed, op.first_index, op.stddev, native_);
  }

  void execute(const FillUniform& op) {
    cuda::fill_uniform(flat_view_of(op.x), op.seed, op.first_index, op.bound, native_);
  }

  void execute(const AddUniform& op) {
    cuda::add_uniform(flat_view_of(op.x), op.seed, op.first_index, op.bound, native_);
  }

  void execute(const Dropout& dropout) {
    const auto& [out, in, probability, seed, number, part, first_index, accumulate] = dropout;
    SFT_ENSURE(out.shape[0] == in.shape[0] && out.row_elements() == in.row_elements(), "dropout: shapes fit");
    const bool flat = out.is_contiguous() && in.is_contiguous();
    cuda::dropout(flat ? flat_view_of(out) : view_of(out), flat ? flat_view_of(in) : view_of(in), probability,
                  {static_cast<const std::uint64_t*>(seed.data), number, part}, first_index, accumulate, native_);
  }

  void execute(const EmbeddingForward& op) {
    cuda::embedding_forward(view_of(op.out), op.tokens.as<std::int32_t>(), view_of(op.table), op.vocab_begin, native_);
  }

  void execute(const EmbeddingBackward& op) {
    cuda::embedding_backward(view_of(op.dtable), op.tokens.as<std::int32_t>(), view_of(op.dout), op.vocab_begin,
                             scratch(embedding_backward_bytes(op.dout.row_elements())), native_);
  }

  void execute(const RmsNormForward& op) {
    cuda::rms_norm_forward(view_of(op.y), floats_of(op.rstd), view_of(op.x), weight_of(op.weight, op.x), op.epsilon,
                           native_);
  }

  void execute(const AddRmsNormForward& norm) {
    cuda::add_rms_norm_forward(view_of(norm.sum), view_of(norm.y), floats_of(norm.rstd), view_of(norm.x),
                               view_of(norm.delta), weight_of(norm.weight, norm.x), norm.epsilon, native_);
  }

  void execute(const RmsNormApply& norm) {
    cuda::rms_norm_apply(view_of(norm.y), view_of(norm.x), floats_of(norm.rstd), weight_of(norm.weight, norm.x),
                         native_);
  }

  void execute(const RmsNormBackward& norm) {
    const ConstView rows = view_of(norm.x);
    const Partials partials(*this, norm.dweight, rms_norm_backward_partials(rows.rows, rows.columns), rows.columns);
    cuda::rms_norm_backward(view_of(norm.dx), partials.data(), view_of(norm.dy), rows, floats_of(norm.rstd),
                            weight_of(norm.weight, norm.x), view_of(norm.dresidual), native_);
    if (!is_empty(rows)) partials.add_up();
  }

  void execute(const SplitNormSquares& op) { cuda::split_norm_squares(floats_of(op.squares), view_of(op.x), native_); }

  void execute(const SplitNormForward& norm) {
    cuda::split_norm_forward(view_of(norm.y), floats_of(norm.rstd), view_of(norm.x), floats_of(norm.squares),
                             weight_of(norm.weight, norm.x), norm.all_columns, norm.epsilon, native_);
  }

  void execute(const SplitNormDots& norm) {
    const ConstView rows = view_of(norm.x);
    const Partials partials(*this, norm.dweight, rms_norm_backward_partials(rows.rows, rows.columns), rows.columns);
    cuda::split_norm_dots(floats_of(norm.dots), partials.data(), view_of(norm.dy), rows, floats_of(norm.rstd),
                          weight_of(norm.weight, norm.x), native_);
    if (!is_empty(rows)) partials.add_up();
  }

  void execute(const SplitNormBackward& norm) {
    cuda::split_norm_backward(view_of(norm.dx), view_of(norm.dy), view_of(norm.x), floats_of(norm.rstd),
                              floats_of(norm.dots), weight_of(norm.weight, norm.x), norm.all_columns, native_);
  }

  void execute(const WriteRopeTable& op) {
    cuda::rope_table(floats_of(op.cosine), floats_of(op.sine), op.positions.as<std::int32_t>(),
                     op.inverse_frequencies.as<double>(), op.positions.num_elements(),
                     op.inverse_frequencies.num_elements(), {op.scale.factor, op.scale.beta, op.scale.length}, native_);
  }

  void execute(const RopeForward& op) {
    rope(view_of(op.out), view_of(op.in), floats_of(op.table.cosine), floats_of(op.table.sine), op.in.shape[2],
         op.table.cosine.shape[1], 1.0F, native_);
  }

  void execute(const RopeBackward& op) {
    rope(view_of(op.din), view_of(op.dout), floats_of(op.table.cosine), floats_of(op.table.sine), op.din.shape[2],
         op.table.cosine.shape[1], -1.0F, native_);
  }

  void execute(const NormRopeForward& heads) {
    check_head_dim(heads.in);
    cuda::norm_rope_forward(view_of(heads.out), floats_of(heads.rstd), view_of(heads.in),
                            weight_of(heads.weight, heads.in), floats_of(heads.table.cosine),
                            floats_of(heads.table.sine), heads.in.shape[2], heads.epsilon, native_);
  }

  void execute(const NormRopeBackward& heads) {
    const ConstTensor& in = heads.in;
    check_head_dim(in);
    const ConstView rows = view_of(in);
    const Partials partials(*this, heads.dweight, norm_rope_backward_partials(in.shape[0] * in.shape[1]), in.shape[2]);
    cuda::norm_rope_backward(view_of(heads.din), partials.data(), view_of(heads.dout), rows, floats_of(heads.rstd),
                             weight_of(heads.weight, in), floats_of(heads.table.cosine), floats_of(heads.table.sine),
                             in.shape[2], native_);
    if (!is_empty(rows)) partials.add_up();
  }

  void execute(const Matmul& product) { engine().run(product, scratch_); }

  void execute(const BiasBackward& op) {
    const auto& [dbias, dy] = op;
    const ConstView rows = view_of(dy);
    column_sums(floats_of(dbias), rows, scratch(column_sums_bytes(rows.rows, rows.columns)), native_);
  }

  void execute(const ScaleColumns& columns) {
    const ConstTensor& bias = columns.bias;
    cuda::scale_columns(view_of(columns.out), view_of(columns.in), floats_of(columns.factors), columns.shift,
                        {bias.data, bias.dtype == DType::bf16}, columns.accumulate, native_);
  }

  void execute(const AddColumnProducts& products) {
    const ConstView rows = view_of(products.a);
    cuda::add_column_products(floats_of(products.sums), rows, view_of(products.b), floats_of(products.factors),
                              scratch(column_sums_bytes(rows.rows, rows.columns)), native_);
  }

  void execute(const AddRowProducts& products) {
    cuda::add_row_products(floats_of(products.sums), view_of(products.a), view_of(products.b), products.factor,
                           native_);
  }

  void execute(const MagnitudeFactors& factors) {
    cuda::magnitude_factors(floats_of(factors.factors), floats_of(factors.inverse_norms),
                            flat_view_of(factors.magnitudes), floats_of(factors.squares), native_);
  }

  void execute(const ReadFourBits& read) {
    cuda::read_four_bits(view_of(read.out), four_bit_arguments_of(read), native_);
  }

  void execute(const FindFp8Scale& round) {
    SFT_ENSURE(round.out.tiles == Fp8Tiles::whole, "ops: a matrix with one scale");
    cuda::find_fp8_scale(fp8_view_of(round.out), fp8_source_of(round), native_);
  }

  void execute(const RoundToFp8& round) { cuda::round_to_fp8(fp8_rounding_of(round), native_); }

  void execute(const RaiseFp8Scales& op) { cuda::raise_fp8_scales(fp8_run_view_of(op.run), native_); }
  void execute(const RoundFp8Run& op) { cuda::round_fp8_run(fp8_run_view_of(op.run), native_); }
  void execute(const ArrangeFp8& arrange) { cuda::arrange_fp8(fp8_arrangement_of(arrange), native_); }

  void execute(const Fp8Matmul& product) {
    SFT_ENSURE(fp8_products_.has_value(), "ops: what ends a step has no products");
    fp8_products_->run(product, scratch_);
  }

  void execute(const AttentionForward& attention) {
    const auto* const plan = cudnn_ ? dynamic_cast<const TilePlan*>(&attention.plan) : nullptr;
    if (plan == nullptr || !forward_by_library(attention, *plan))
      cuda::attention_forward(attention, for_hopper_, native_);
    stream_.mark();
  }

  void execute(const AttentionDelta& op) { cuda::attention_delta(op.delta, op.out, op.dout, native_); }

  void execute(const AttentionBackward& attention) {
    const auto* const plan = cudnn_ ? dynamic_cast<const TilePlan*>(&attention.plan) : nullptr;
    if (plan == nullptr || !backward_by_library(attention, *plan))
      cuda::attention_backward(attention, for_hopper_, native_);
    stream_.mark();
  }

  void execute(const AttentionSinksBackward& attention) {
    const std::int64_t num_tokens = attention.lse.shape[0], num_heads = attention.lse.shape[1];
    if (attention.lse.empty()) return;
    const Partials partials(*this, attention.dsinks, attention_sinks_partials(num_tokens), num_heads);
    cuda::attention_sinks_backward(partials.data(), {attention.sinks.data, attention.sinks.dtype == DType::bf16},
                                   floats_of(attention.lse), floats_of(attention.delta), num_tokens,
                                   static_cast<int>(num_heads), native_);
    partials.add_up();
  }

  void execute(const RouterForward& router) {
    cuda::router_forward(router_arguments(router.rule, router.logits, router.correction, router.experts),
                         int32s_of(router.experts), floats_of(router.weights), native_);
  }

  void execute(const RouterBackward& router) {
    cuda::router_backward(router_arguments(router.rule, router.logits, {}, router.experts), floats_of(router.dlogits),
                          int32s_of(router.experts), floats_of(router.dweights), native_);
  }

  void execute(const RouterSums& sums) {
    const std::size_t row_bytes = sums.logits.shape[1] * sizeof(double);
    cuda::router_sums(arguments_of(sums), scratch(router_sums_blocks * row_bytes), native_);
  }

  void execute(const RouterSumsBackward& sums) { cuda::router_sums_backward(arguments_of(sums), native_); }

  void execute(const ExpertOrder& order) {
    const ExpertOrderArguments arguments = arguments_of(order);
    cuda::expert_order(arguments, scratch(expert_order_bytes(arguments.num_choices, arguments.num_experts)), native_);
  }

  void execute(const GatherTokens& gather) { cuda::gather_tokens(arguments_of(gather), native_); }

  void execute(const CombineRows& combine) { cuda::combine_rows(arguments_of(combine), native_); }

  void execute(const CombineWeightsBackward& combine) {
    cuda::combine_weights_backward(arguments_of(combine), native_);
  }

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
    cuda::gated_forward(gated.rule, view_of(gated.act), view_of(gated.gate_up), native_);
  }

  void execute(const GatedBackward& gated) {
    cuda::gated_backward(gated.rule, view_of(gated.dgate_up), view_of(gated.act), view_of(gated.dact),
                         view_of(gated.gate_up), native_);
  }

  void execute(const SoftCap& op) {
    const auto& [x, cap] = op;
    SFT_ENSURE(x.dtype == DType::float32, "soft_cap: float32 expected");
    cuda::soft_cap(flat_view_of(x), cap, native_);
  }

  void execute(const CrossEntropyMax& op) {
    const auto& chunk = op.chunk;
    cuda::cross_entropy_max(arguments_of(chunk), native_);
  }

  void execute(const CrossEntropyPartials& op) {
    const auto& chunk = op.chunk;
    cuda::cross_entropy_partials(arguments_of(chunk), native_);
  }

  void execute(const CrossEntropyFinish& op) {
    const auto& [chunk, dlogits, gradient_scale, metrics] = op;
    const CrossEntropyArguments arguments = arguments_of(chunk);
    cross_entropy_metrics(arguments, metrics.as<double>(), native_);
    if (dlogits.data != nullptr) cross_entropy_gradient(arguments, view_of(dlogits), gradient_scale, native_);
  }

  void execute(const Update& step) {
    UpdateArguments arguments{factors_of(step)};
    arguments.parameters = flat_view_of(step.parameters);
    for (std::size_t i = 0; i < step.state.size(); ++i) {
      if (!step.state[i].empty()) arguments.state[i] = flat_view_of(step.state[i]);
    }
    arguments.gradients = flat_view_of(step.gradients);
    if (!step.copy.empty()) arguments.copy = flat_view_of(step.copy);
    cuda::update(arguments, native_);
  }

  void execute(const UpdateBlockwise& op) {
    const auto& step = op.step;
    cuda::update_blockwise(arguments_of_blocks(step), native_);
  }

  void execute(const RaiseScales& op) {
    const auto& step = op.step;
    cuda::raise_scales(arguments_of_blocks(step), native_);
  }

  void execute(const SumSquaresByDim& sums) {
    cuda::sum_squares_by_dim(arguments_of(sums), scratch(factored_scratch_bytes), native_);
  }

  void execute(const MomentFactors& step) { cuda::update_factors(arguments_of(step), native_); }

  void execute(const AddDirectionSquares& op) {
    const auto& step = op.step;
    cuda::add_direction_squares(arguments_of(step), scratch(factored_scratch_bytes), native_);
  }

  void execute(const UpdateFactored& op) {
    const auto& step = op.step;
    cuda::update_factored(arguments_of(step), native_);
  }

  /// is_of_host: what it is called with lies on the host (TilePlan::launch_words), so that no call is repeated.
  [[nodiscard]] std::unique_ptr<TilePlan> make_plan(const std::vector<sequence::AttentionSpan>& spans,
                                                    std::int64_t num_queries, std::int64_t num_keys, bool is_of_host) {
    const PlanRoom room = attention_repeats_ && !is_of_host ? PlanRoom::for_others : PlanRoom::for_itself;
    return std::make_unique<TilePlan>(*plans_, spans, num_queries, num_keys, room, native_);
  }

  /// A plan for calls that merge, whose rectangles cuDNN may take.
  [[nodiscard]] std::unique_ptr<TilePlan> plan_merging(const std::vector<sequence::AttentionSpan>& spans,
                                                       std::int64_t num_queries, std::int64_t num_keys,
                                                       bool is_of_host) {
    cudnn::SplitSpans split = cudnn_ ? cudnn::split_rectangles(spans) : cudnn::SplitSpans{};
    const bool has_rectangles = !split.rectangles.empty();
    auto plan = make_plan(spans, num_queries, num_keys, is_of_host || has_rectangles);
    if (!has_rectangles) return plan;
    std::unique_ptr<TilePlan> rest;
    if (!split.rest.empty()) rest = make_plan(split.rest, num_queries, num_keys, /*is_of_host=*/true);
    plan->set_rectangles(std::make_unique<cudnn::Rectangles>(*plans_, std::move(split.rectangles), native_),
                         std::move(rest));
    return plan;
  }

  /// Documents or rectangles of the plan by cuDNN, and what is merged with them by whom that is for; false: nothing is
  /// queued.
  [[nodiscard]] bool forward_by_library(const AttentionForward& attention, const TilePlan& plan) {
    if (attention.merge) {
      if (plan.rectangles() == nullptr || !cudnn_->merge(attention, *plan.rectangles())) return false;
    } else {
      if (plan.documents() == nullptr) return false;
      if (plan.rest() != nullptr && attention.out.dtype != DType::float32) return false;
      if (!cudnn_->forward(attention, *plan.documents())) return false;
    }
    if (plan.rest() == nullptr) return true;
    const AttentionForward beside{.q = attention.q,
                                  .k = attention.k,
                                  .v = attention.v,
                                  .out = attention.out,
                                  .lse = attention.lse,
                                  .scale = attention.scale,
                                  .plan = *plan.rest(),
                                  .merge = true};
    if (!forward_by_library(beside, *plan.rest())) cuda::attention_forward(beside, for_hopper_, native_);
    return true;
  }

  /// The same of the backward pass, whose gradients of both are added up.
  [[nodiscard]] bool backward_by_library(const AttentionBackward& attention, const TilePlan& plan) {
    if (attention.accumulate_dq) {
      if (plan.rectangles() == nullptr || !cudnn_->add_gradients(attention, *plan.rectangles())) return false;
    } else {
      if (plan.documents() == nullptr) return false;
      if (plan.rest() != nullptr && !cudnn::are_sums(attention)) return false;
      if (!cudnn_->backward(attention, *plan.documents())) return false;
    }
    if (plan.rest() == nullptr) return true;
    const AttentionBackward beside{.q = attention.q,
                                   .k = attention.k,
                                   .v = attention.v,
                                   .dout = attention.dout,
                                   .lse = attention.lse,
                                   .delta = attention.delta,
                                   .dq = attention.dq,
                                   .dk = attention.dk,
                                   .dv = attention.dv,
                                   .scale = attention.scale,
                                   .plan = *plan.rest(),
                                   .accumulate_dq = true,
                                   .accumulate_dkv = true,
                                   .out = attention.out};
    if (!backward_by_library(beside, *plan.rest())) cuda::attention_backward(beside, for_hopper_, native_);
    return true;
  }

  /// The products of all experts that have rows: in one call of the library, or one after the other.
  template <class Grouped>
  void run_products(const Grouped& grouped, std::int64_t num_experts) {
    std::vector<Matmul> products;
    products.reserve(static_cast<std::size_t>(num_experts));
    for (std::int64_t e = 0; e < num_experts; ++e) {
      const Matmul product = product_of(grouped, e);
      if (product.accumulate && product.a.empty()) continue;
      products.push_back(product);
    }
    if (grouped_.run(products, scratch_)) return;
    for (const Matmul& product : products) engine().run(product, scratch_);
  }

  [[nodiscard]] MatmulEngine& engine() {
    SFT_ENSURE(products_.has_value(), "ops: what ends a step has no products");
    return *products_;
  }

  /// The scratch memory, of which an op needs `num_bytes`.
  [[nodiscard]] Workspace scratch(std::size_t num_bytes) const {
    SFT_ENSURE(scratch_.data != nullptr, "ops: set_workspace first");
    SFT_ENSURE(num_bytes <= scratch_.num_bytes, "ops: the workspace holds a row");
    return scratch_;
  }

  /// Rows in the scratch memory whose column sums are added to a gradient, if it is asked for.
  class Partials {
   public:
    Partials(const CudaBackend& backend, const Tensor& sums, std::int64_t num_rows, std::int64_t num_columns)
        : stream_(backend.native_), num_rows_(num_rows), num_columns_(num_columns) {
      if (sums.data == nullptr) return;
      sums_ = floats_of(sums);
      data_ = static_cast<float*>(backend.scratch(num_rows * num_columns * sizeof(float)).data);
    }
    [[nodiscard]] float* data() const { return data_; }
    void add_up() const {
      if (sums_ != nullptr) add_rows(sums_, data_, num_rows_, num_columns_, stream_);
    }

   private:
    cudaStream_t stream_;
    std::int64_t num_rows_, num_columns_;
    float *sums_ = nullptr, *data_ = nullptr;
  };

  device::Stream& stream_;
  cudaStream_t native_;
  bool uses_cudnn_ = false, in_order_ = true, for_hopper_ = false, attention_repeats_ = false;
  std::optional<MatmulEngine> products_;         ///< none where a step ends
  std::optional<Fp8MatmulEngine> fp8_products_;  ///< the same
  GroupedMatmulEngine grouped_;
  Workspace scratch_;  ///< as large as the ops need it, from the start; there once it is set
  std::optional<PlanPool> plans_;
  std::optional<cudnn::Attention> cudnn_;
};

}  // namespace

std::unique_ptr<Backend> make_backend(device::Stream& stream, AttentionKernels attention,
                                      const MatmulAlgorithms* algorithms) {
  if (is_of_library(attention)) {
    if (const std::string problem = find_attention_library().problem; !problem.empty()) {
      throw Error(ExitStatus::configuration, problem);
    }
  }
  return std::make_unique<CudaBackend>(stream, attention, algorithms);
}

std::unique_ptr<Backend> make_step_backend(device::Stream& stream) { return std::make_unique<CudaBackend>(stream); }

}  // namespace sft::ops::cuda

namespace sft::ops {

bool is_built(device::Kind /*kind*/) { return true; }
void require_built(device::Kind /*kind*/) {}

AttentionLibrary find_attention_library() {
  namespace cudnn = cuda::cudnn;
  const cudnn::Version version = cudnn::version();
  if (version.number == 0) return {.problem = version.problem};
  constexpr std::size_t of_major = 10'000, of_minor = 100;
  const auto name_of = [](std::size_t number) {
    return fmt::format("cuDNN {}.{}.{}", number / of_major, number % of_major / of_minor, number % of_minor);
  };
  if (version.number < cudnn::oldest_version) {
    return {.problem = fmt::format("cuDNN's attention cannot be used (the {} that was found is older than {}): "
                                   "install a newer one, or leave device.attention out",
                                   name_of(version.number), name_of(cudnn::oldest_version))};
  }
  return {.problem = {},
          .name = name_of(version.number),
          .has_backward = cudnn::repeats_backward(version.number),
          .has_float32_results = cudnn::has_float32_results(version.number)};
}

}  // namespace sft::ops
