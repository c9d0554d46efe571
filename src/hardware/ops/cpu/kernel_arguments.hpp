// SPDX-License-Identifier: Apache-2.0
#pragma once
// The arguments of the kernels out of those of the operations, where they take more than a view of each tensor.

#include <cstddef>
#include <cstdint>
#include <iterator>

#include "ops/cpu/attention_plan.hpp"
#include "ops/cpu/kernels.hpp"
#include "ops/tensor_arguments.hpp"
#include "sft/core/ensure.hpp"

namespace sft::ops::cpu {

/// All but the state.
inline UpdateArguments arguments_of_update(const Update& step) {
  UpdateArguments arguments{factors_of(step)};
  arguments.parameters = flat_view_of(step.parameters).data;
  arguments.gradients = floats_of(step.gradients);
  arguments.copy = step.copy.as<std::uint16_t>();
  arguments.has_bf16_parameters = step.parameters.dtype == DType::bf16;
  arguments.size = step.gradients.num_elements();
  return arguments;
}

inline BlockwiseArguments arguments_of_blocks(const BlockwiseUpdate& step) {
  BlockwiseArguments arguments{arguments_of_update(step.update), block_factors_of(step)};
  for (std::size_t i = 0; i < step.update.state.size(); ++i) arguments.state[i] = step.update.state[i].data;
  return arguments;
}

/// A contiguous tensor as rows of a size that threads can share out.
inline View in_rows(const Tensor& x) {
  View view = flat_view_of(x);
  constexpr std::int64_t row = 4096;
  if (view.columns % row == 0) view = {view.data, view.is_bf16, view.columns / row, row, row};
  return view;
}

inline void check_head_dim(const ConstTensor& x) {
  SFT_ENSURE(x.ndim == 3 && x.shape[2] <= max_head_dim && x.shape[2] % 2 == 0, "ops: head_dim must be even and <= 256");
}

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
  check_head_dim(attention.q);
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

}  // namespace sft::ops::cpu
