// SPDX-License-Identifier: Apache-2.0
#pragma once
// The products of single experts, of which ops on groups are made.

#include <cstdint>

#include "sft/core/ensure.hpp"
#include "sft/ops/calls/grouped_matmul.hpp"
#include "sft/ops/calls/matmul.hpp"

namespace sft::ops {

/// The number of experts of the op; std::logic_error where its offsets are not of its rows.
[[nodiscard]] inline std::int64_t num_experts_of(const GroupedMatmul& grouped) {
  SFT_ENSURE(are_offsets(grouped.offsets, grouped.b.shape[0], grouped.a.shape[0]), "ops: offsets are of the rows");
  return grouped.b.shape[0];
}
[[nodiscard]] inline std::int64_t num_experts_of(const GroupedWeightGradient& grouped) {
  SFT_ENSURE(are_offsets(grouped.offsets, grouped.dweight.shape[0], grouped.x.shape[0]),
             "ops: offsets are of the rows");
  return grouped.dweight.shape[0];
}
[[nodiscard]] inline std::int64_t num_experts_of(const GroupedBiasGradient& grouped) {
  SFT_ENSURE(are_offsets(grouped.offsets, grouped.dbias.shape[0], grouped.dy.shape[0]), "ops: offsets are of the rows");
  return grouped.dbias.shape[0];
}

/// The product of expert e.
[[nodiscard]] inline Matmul product_of(const GroupedMatmul& grouped, std::int64_t e) {
  const std::int64_t begin = grouped.offsets[e], count = grouped.offsets[e + 1] - begin;
  const ConstTensor& b = grouped.b;
  Matmul product{.a = grouped.a.rows(begin, count),
                 .b = b.rows(e, 1).view({b.shape[1], b.shape[2]}),
                 .c = grouped.c.rows(begin, count),
                 .transpose_b = grouped.transpose_b,
                 .accumulate = grouped.accumulate};
  if (!grouped.bias.empty()) product.bias = grouped.bias.rows(e, 1).view({grouped.bias.shape[1]});
  return product;
}

[[nodiscard]] inline Matmul product_of(const GroupedWeightGradient& grouped, std::int64_t e) {
  const std::int64_t begin = grouped.offsets[e], count = grouped.offsets[e + 1] - begin;
  const Tensor& c = grouped.dweight;
  return {.a = grouped.x.rows(begin, count),
          .b = grouped.y.rows(begin, count),
          .c = c.rows(e, 1).view({c.shape[1], c.shape[2]}),
          .transpose_a = true,
          .accumulate = true};
}

/// The gradient of the bias of expert e.
[[nodiscard]] inline BiasBackward bias_gradient_of(const GroupedBiasGradient& grouped, std::int64_t e) {
  const std::int64_t begin = grouped.offsets[e], count = grouped.offsets[e + 1] - begin;
  return {grouped.dbias.rows(e, 1).view({grouped.dbias.shape[1]}), grouped.dy.rows(begin, count)};
}

}  // namespace sft::ops
