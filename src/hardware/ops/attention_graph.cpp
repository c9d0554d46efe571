// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "sft/ops/attention_graphs.hpp"

namespace sft::ops {

std::string AttentionGraph::name() const {
  std::string text = fmt::format("{}-d{}-l{}-w{}-h{}-k{}-e{}-s{:a}-q{}-k{}-v{}-o{}{}",
                                 is_backward() ? "backward" : "forward", documents, longest, window, q_heads, kv_heads,
                                 head_dim, scale, q_row, k_row, v_row, out_row, float32_out ? "f" : "");
  if (longest_keys > 0) text += fmt::format("-{}{}", is_tail ? "e" : "r", longest_keys);
  if (is_backward()) text += fmt::format("-do{}-dq{}-dk{}-dv{}-t{}", dout_row, dq_row, dk_row, dv_row, tokens);
  if (!in_order) text += "-any";
  if (key_tokens != tokens) text += fmt::format("x{}", key_tokens);
  return text;
}

}  // namespace sft::ops
