// SPDX-License-Identifier: Apache-2.0
#pragma once
// The rules of the ops of attention. A rule that is broken is a std::logic_error, as in call.hpp.

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "sft/ops/backend.hpp"

namespace sft::ops::checked {

/// As far as the kernels go.
inline constexpr std::int64_t max_head_dim = 256;

/// A plan of the other backend, with the sizes it was made for.
struct SizedPlan final : AttentionPlan {
  SizedPlan(std::unique_ptr<AttentionPlan> plan, std::int64_t queries, std::int64_t keys)
      : inner(std::move(plan)), num_queries(queries), num_keys(keys) {}
  [[nodiscard]] std::vector<std::uint64_t> launch_words() const override { return inner->launch_words(); }

  std::unique_ptr<AttentionPlan> inner;
  std::int64_t num_queries, num_keys;
};

void check_plan_attention(const std::vector<sequence::AttentionSpan>& spans, std::int64_t num_queries,
                          std::int64_t num_keys);
/// Returns the plan as the other backend made it, as check_attention_backward does.
[[nodiscard]] const AttentionPlan& check_attention_forward(const AttentionForward& attention);
void check_attention_delta(const Tensor& delta, const ConstTensor& out, const ConstTensor& dout);
[[nodiscard]] const AttentionPlan& check_attention_backward(const AttentionBackward& attention);
void check_attention_sinks_backward(const AttentionSinksBackward& attention);

}  // namespace sft::ops::checked
