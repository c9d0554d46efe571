// SPDX-License-Identifier: Apache-2.0
#include "ops/cuda/attention_plan.hpp"

#include <algorithm>
#include <array>
#include <cstdint>

#include "ops/cuda/attention_calls.hpp"
#include "ops/views/tensor.hpp"
#include "sft/core/ensure.hpp"

namespace sft::ops::cuda {

template <class Memory>
BasicHeadRows<Memory> head_rows(const BasicTensor<Memory>& x) {
  SFT_ENSURE(x.dtype == DType::float32 || x.dtype == DType::bf16, "ops: float32 or bf16 expected");
  const auto element_bytes = static_cast<std::int64_t>(size_of(x.dtype));
  const auto is_aligned = [](std::int64_t bytes) { return bytes % 16 == 0; };
  return {x.data, x.stride0, x.dtype == DType::bf16,
          is_aligned(static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(x.data))) &&
              is_aligned(x.stride0 * element_bytes) && is_aligned(x.shape[2] * element_bytes)};
}
template HeadRows head_rows(const Tensor& x);
template ConstHeadRows head_rows(const ConstTensor& x);

namespace {

/// Checks what forward and backward have in common.
template <class Attention>
const TilePlan& checked_plan(const Attention& attention) {
  const std::int64_t head_dim = attention.q.shape[2];
  SFT_ENSURE(head_dim > 0 && head_dim % 2 == 0 && head_dim <= 256, "ops: a head dim is even and at most 256");
  SFT_ENSURE(attention.q.dtype == attention.k.dtype && attention.q.dtype == attention.v.dtype,
             "ops: queries, keys and values have one dtype");
  SFT_ENSURE(attention.k.shape[1] > 0 && attention.q.shape[1] % attention.k.shape[1] == 0,
             "ops: query heads are a multiple of key/value heads");
  const auto* plan = dynamic_cast<const TilePlan*>(&attention.plan);
  SFT_ENSURE(plan != nullptr, "ops: an attention plan is for the backend that made it");
  SFT_ENSURE(plan->num_queries() == attention.q.shape[0], "ops: an attention plan is for the sizes it was made for");
  SFT_ENSURE(plan->num_keys() == attention.k.shape[0], "ops: an attention plan is for the sizes it was made for");
  return *plan;
}

/// Query heads whose keys and values together take at most 32 MiB, a part of the L2 cache of large GPUs (40 MiB of an
/// A100, 50 MiB of an H100); those of one key/value head at least.
template <class Attention>
std::int32_t heads_at_once(const Attention& attention) {
  constexpr std::int64_t cache_bytes = std::int64_t{32} << 20;
  const std::int64_t num_heads = attention.q.shape[1], num_kv_heads = attention.k.shape[1];
  const std::int64_t head_bytes =
      2 * attention.k.shape[0] * attention.k.shape[2] * static_cast<std::int64_t>(size_of(attention.k.dtype));
  const std::int64_t kv_heads =
      std::clamp<std::int64_t>(cache_bytes / std::max<std::int64_t>(head_bytes, 1), 1, num_kv_heads);
  return static_cast<std::int32_t>(kv_heads * (num_heads / num_kv_heads));
}

/// What calls of forward and backward have in common.
template <class Call, class Attention>
Call begin_call(const Attention& attention, const TilePlan& plan) {
  Call call{};
  call.q = head_rows(attention.q);
  call.k = head_rows(attention.k);
  call.v = head_rows(attention.v);
  call.lse = floats_of(attention.lse);
  call.queries = plan.queries();
  call.num_heads = static_cast<std::int32_t>(attention.q.shape[1]);
  call.num_kv_heads = static_cast<std::int32_t>(attention.k.shape[1]);
  call.head_dim = static_cast<std::int32_t>(attention.q.shape[2]);
  call.heads_at_once = heads_at_once(attention);
  call.scale = attention.scale;
  call.softcap = attention.softcap;
  return call;
}

void check_output(const Tensor& out, const ConstTensor& in, bool adds) {
  SFT_ENSURE(out.dtype == DType::float32 || out.dtype == in.dtype,
             "ops: results of attention are float32 or have the dtype of its inputs");
  SFT_ENSURE(!adds || out.dtype == DType::float32, "ops: parts of attention results add up in float32");
}

/// Kernels for GPUs of one compute capability.
struct KernelsOfGpu {
  AttentionKernels name;
  std::int32_t max_head_dim;
  void (*forward)(const AttentionForwardCall& call, cudaStream_t stream);
  void (*backward)(const AttentionBackwardCall& call, cudaStream_t stream);
};
constexpr std::array kernels_of_gpus{
    KernelsOfGpu{AttentionKernels::hopper, 128, attention_forward_of<90>, attention_backward_of<90>}};

/// The kernels of this name, where they take the call; else nullptr.
template <class Call>
const KernelsOfGpu* find_kernels(AttentionKernels name, const Call& call) {
  if (!call.q.is_bf16 || call.softcap != 0.0F) return nullptr;
  const auto* found = std::ranges::find(kernels_of_gpus, name, &KernelsOfGpu::name);
  return found != kernels_of_gpus.end() && call.head_dim <= found->max_head_dim ? found : nullptr;
}

}  // namespace

void attention_forward(const AttentionForward& attention, AttentionKernels kernels, cudaStream_t stream) {
  const TilePlan& plan = checked_plan(attention);
  check_output(attention.out, attention.q, attention.merge);
  SFT_ENSURE(attention.sinks.empty() || !attention.merge, "ops: sinks belong to the first of the calls that merge");
  auto call = begin_call<AttentionForwardCall>(attention, plan);
  call.out = head_rows(attention.out);
  call.merges = attention.merge;
  if (!attention.sinks.empty()) call.sinks = {attention.sinks.data, attention.sinks.dtype == DType::bf16};
  if (const auto* of_gpu = find_kernels(kernels, call)) return of_gpu->forward(call, stream);
  if (call.q.is_bf16) return attention_forward_sm80(call, stream);
  attention_forward_float32(call, stream);
}

void attention_backward(const AttentionBackward& attention, AttentionKernels kernels, cudaStream_t stream) {
  const TilePlan& plan = checked_plan(attention);
  SFT_ENSURE(attention.dout.dtype == attention.q.dtype, "ops: queries and the gradient of the output have one dtype");
  SFT_ENSURE(attention.dk.dtype == attention.dv.dtype, "ops: dk and dv have one dtype");
  check_output(attention.dq, attention.q, attention.accumulate_dq);
  check_output(attention.dk, attention.k, attention.accumulate_dkv);
  auto call = begin_call<AttentionBackwardCall>(attention, plan);
  const bool is_capped = call.softcap > 0.0F;
  call.exponent_of_score = (is_capped ? call.softcap : call.scale) * log2_of_e;
  call.exponent_of_share = is_capped ? call.scale / call.softcap * 2.0F * log2_of_e : 0.0F;
  call.dout = head_rows(attention.dout);
  call.delta = floats_of(attention.delta);
  call.dq = head_rows(attention.dq);
  call.dk = head_rows(attention.dk);
  call.dv = head_rows(attention.dv);
  call.keys = plan.keys();
  call.adds_to_dq = attention.accumulate_dq;
  call.adds_to_dkv = attention.accumulate_dkv;
  if (const auto* of_gpu = find_kernels(kernels, call)) return of_gpu->backward(call, stream);
  if (call.q.is_bf16) return attention_backward_sm80(call, stream);
  attention_backward_float32(call, stream);
}

}  // namespace sft::ops::cuda
