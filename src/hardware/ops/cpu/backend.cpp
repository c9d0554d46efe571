// SPDX-License-Identifier: Apache-2.0
#include "ops/backends.hpp"

#include <omp.h>

#include <algorithm>
#include <iterator>
#include <limits>

#include "ops/cpu/attention_plan.hpp"
#include "ops/cpu/grouped_matmul.hpp"
#include "ops/cpu/matmul.hpp"
#include "ops/cpu/planning.hpp"
#include "ops/grouped_products.hpp"
#include "ops/views/tensor.hpp"
#include "sft/core/activity.hpp"
#include "sft/core/ensure.hpp"

namespace sft::ops::cpu {
namespace {

template <class Attention>
const TilePlan& plan_of(const Attention& attention) {
  const auto* plan = dynamic_cast<const TilePlan*>(&attention.plan);
  SFT_ENSURE(plan != nullptr, "ops: an attention plan is for the backend that made it");
  SFT_ENSURE(plan->num_queries() == attention.q.shape[0], "ops: an attention plan is for the sizes it was made for");
  SFT_ENSURE(plan->num_keys() == attention.k.shape[0], "ops: an attention plan is for the sizes it was made for");
  return *plan;
}

template <class Attention>
AttentionArguments attention_arguments(const Attention& attention, const TilePlan& plan) {
  ensure_head_dim(attention.q);
  AttentionArguments arguments{};
  arguments.q = view_of(attention.q);
  arguments.k = view_of(attention.k);
  arguments.v = view_of(attention.v);
  arguments.scale = attention.scale;
  arguments.softcap = attention.softcap;
  arguments.num_heads = attention.q.shape[1];
  arguments.num_kv_heads = attention.k.shape[1];
  arguments.head_dim = attention.q.shape[2];
  arguments.ranges = plan.ranges.data();
  arguments.tiles = plan.tiles.data();
  arguments.lanes = plan.lanes.data();
  arguments.num_tiles = std::ssize(plan.tiles);
  arguments.num_lanes = std::ssize(plan.lanes);
  return arguments;
}

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
  template <class Op>
  void execute(const Op& op) {
    kernels_.run(op, scratch());
  }

  void execute(const Matmul& product) {
    products_.run(product, workspace_);
    note_progress();
    device_.progress();
  }

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

  void execute(const GroupedMatmul& grouped) { run_products(grouped); }
  void execute(const GroupedWeightGradient& grouped) { run_products(grouped); }

  void execute(const GroupedBiasGradient& grouped) {
    for (std::int64_t e = 0, num_experts = num_experts_of(grouped); e < num_experts; ++e) {
      const BiasBackward gradient = bias_gradient_of(grouped, e);
      if (!gradient.dy.empty()) execute(gradient);
    }
  }

  /// The products of all experts, of which there are many in few calls: other streams progress behind them.
  template <class Grouped>
  void run_products(const Grouped& grouped) {
    const std::int64_t num_experts = num_experts_of(grouped);
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
    for (const RowRun& run : runs) kernels_.run(Fill{x.rows(run.begin, run.count), value}, scratch());
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
