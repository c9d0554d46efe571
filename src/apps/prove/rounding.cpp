// SPDX-License-Identifier: Apache-2.0
#include "rounding.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <cmath>

namespace sft::apps {

namespace {

constexpr double u_float32 = 0x1p-24, u_bf16 = 0x1p-8;

std::int64_t longest_sum(const config::Model& model) {
  return std::max({model.hidden_size, model.intermediate_size, model.moe_intermediate_size, model.vocab_size,
                   model.num_attention_heads * model.head_dim});
}

bool sends_bf16(const config::Parallel& parallel) {
  return parallel.reduce_dtype == DType::bf16 || parallel.tp_reduce == DType::bf16;
}

}  // namespace

Rounding rounding_between(const config::Config& first, const config::Config& second, std::int64_t tokens) {
  using config::Precision;
  const auto has = [&](Precision precision) {
    return first.train.precision == precision || second.train.precision == precision;
  };
  const bool is_coarse = has(Precision::bf16) || has(Precision::pure_bf16);
  const std::int64_t terms = longest_sum(first.model), gradient_terms = std::max(terms, tokens);
  const std::int64_t depth = 6 * first.model.num_hidden_layers;
  Rounding rounding;
  if (is_coarse) {
    rounding.loss = u_bf16;
    rounding.gradient = u_bf16 * std::sqrt(2.0 * static_cast<double>(depth));
    rounding.reason = fmt::format("bf16 (u = 2^-8), {} products one behind another", depth);
  } else {
    rounding.loss = 4.0 * u_float32 * std::sqrt(static_cast<double>(terms * depth));
    rounding.gradient = 4.0 * u_float32 * std::sqrt(2.0 * static_cast<double>(gradient_terms * depth));
    rounding.reason =
        fmt::format("float32 (u = 2^-24), sums of up to {} terms, in gradients {}, {} products one behind another",
                    terms, gradient_terms, depth);
  }
  if (sends_bf16(first.parallel) || sends_bf16(second.parallel)) {
    rounding.loss = std::max(rounding.loss, u_bf16 / 4.0);
    rounding.gradient = std::max(rounding.gradient, 2.0 * u_bf16);
    rounding.reason += "; sums that travel in bf16";
  }
  rounding.moments = 4.0 * rounding.gradient;
  rounding.movement = 2.0 * std::sqrt(rounding.moments);
  if (first.optimizer.needs_whole_matrices() || second.optimizer.needs_whole_matrices()) {
    rounding.gradient = std::max(rounding.gradient, u_bf16 / 16.0);
    rounding.moments = std::max(rounding.moments, u_bf16 / 4.0);
    rounding.movement = std::max(rounding.movement, 16.0 * u_bf16);
    rounding.reason += "; Muon makes matrices orthogonal in bf16";
  }
  rounding.stored = has(Precision::pure_bf16) ? u_bf16 : u_float32;
  return rounding;
}

}  // namespace sft::apps
