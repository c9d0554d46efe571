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
#include "ops/cuda/kernels/kernels.hpp"
#include "ops/cuda/kernels/run.hpp"
#include "ops/cuda/matmul.hpp"
#include "ops/cuda/planning.hpp"
#include "ops/grouped_products.hpp"
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
    attention_ = attention;
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
  template <class Op>
  void execute(const Op& op) {
    cuda::run(op, Context{native_, scratch_});
  }

  void execute(const Matmul& product) { engine().run(product, scratch_); }

  void execute(const Fp8Matmul& product) {
    SFT_ENSURE(fp8_products_.has_value(), "ops: what ends a step has no products");
    fp8_products_->run(product, scratch_);
  }

  void execute(const AttentionForward& attention) {
    const auto* const plan = cudnn_ ? dynamic_cast<const TilePlan*>(&attention.plan) : nullptr;
    if (plan == nullptr || !forward_by_library(attention, *plan))
      cuda::attention_forward(attention, attention_, native_);
    stream_.mark();
  }

  void execute(const AttentionBackward& attention) {
    const auto* const plan = cudnn_ ? dynamic_cast<const TilePlan*>(&attention.plan) : nullptr;
    if (plan == nullptr || !backward_by_library(attention, *plan))
      cuda::attention_backward(attention, attention_, native_);
    stream_.mark();
  }

  void execute(const GroupedMatmul& grouped) { run_products(grouped); }
  void execute(const GroupedWeightGradient& grouped) { run_products(grouped); }

  void execute(const GroupedBiasGradient& grouped) {
    for (std::int64_t e = 0, num_experts = num_experts_of(grouped); e < num_experts; ++e) {
      const BiasBackward gradient = bias_gradient_of(grouped, e);
      if (!gradient.dy.empty()) execute(gradient);
    }
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
    if (!forward_by_library(beside, *plan.rest())) cuda::attention_forward(beside, attention_, native_);
    return true;
  }

  /// Runs a backward pass by cuDNN where it can, and adds up the gradients of documents and of the rest.
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
    if (!backward_by_library(beside, *plan.rest())) cuda::attention_backward(beside, attention_, native_);
    return true;
  }

  /// The products of all experts that have rows: in one call of the library, or one after the other.
  template <class Grouped>
  void run_products(const Grouped& grouped) {
    const std::int64_t num_experts = num_experts_of(grouped);
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

  device::Stream& stream_;
  cudaStream_t native_;
  bool uses_cudnn_ = false, in_order_ = true, attention_repeats_ = false;
  AttentionKernels attention_ = AttentionKernels::own;
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
