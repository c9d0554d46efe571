// SPDX-License-Identifier: Apache-2.0
#pragma once
// The products of all experts of a layer: every expert multiplies its rows.
//
// Legend: E experts, R rows in the order of experts, N, K columns.

#include <algorithm>
#include <cstdint>
#include <span>

#include "sft/ops/describe.hpp"
#include "sft/ops/pass.hpp"
#include "sft/tensor/tensor.hpp"

namespace sft::ops {

/// Where the rows of each expert begin, and after the last where they end: E + 1 numbers in host memory, read before
/// the call returns. On a GPU the caller copies those of ExpertOrder and waits, once a layer: cuBLAS takes sizes from
/// the host (cuBLASLt before 13.2 too). The products wait for nothing: their addresses travel as arguments of a kernel.
using ExpertOffsets = std::span<const std::int32_t>;

/// Whether `offsets` rise, for `num_experts` experts, within `num_rows` rows.
[[nodiscard]] inline bool are_offsets(ExpertOffsets offsets, std::int64_t num_experts, std::int64_t num_rows) {
  return std::ssize(offsets) == num_experts + 1 && offsets.front() == 0 && offsets.back() <= num_rows &&
         std::ranges::is_sorted(offsets);
}

/// For each expert e, of its rows: c = a op(b[e]) [+ bias[e]] [+ c], as Matmul. Rows after the last offset are left as
/// they are.
struct GroupedMatmul {
  static constexpr const char* name = "grouped_matmul";
  static constexpr bool repeats = false;
  ConstTensor a;  ///< (R, K) compute dtype
  ConstTensor b;  ///< (E, K, N) compute dtype; with transpose_b (E, N, K)
  Tensor c;       ///< (R, N) compute dtype or float32
  ExpertOffsets offsets;
  bool transpose_b = false;
  bool accumulate = false;
  ConstTensor bias{};  ///< (E, N) compute dtype; empty: none

  template <class Visitor>
  void describe(Visitor& op) const {
    op.in("a", a, "R K", Types::compute);
    op.in("b", b, transpose_b ? "E N K" : "E K N", Types::compute);
    accumulate ? op.add("c", c, "R N", Types::compute_or_float32) : op.out("c", c, "R N", Types::compute_or_float32);
    op.in("bias", bias, "E N", Types::compute, optional);
    op.scalar("transpose_b", transpose_b);
    op.scalar("accumulate", accumulate);
    op.require(are_offsets(offsets, b.shape[0], a.shape[0]), "offsets are not those of the experts within the rows");
  }
};

/// For each expert e: dweight[e] += x^T y of its rows. With the roles of x and y as in the products of the forward
/// pass: y = a and x = dc where its weights lie as (E, N, K), else the other way round.
struct GroupedWeightGradient {
  static constexpr const char* name = "grouped_weight_gradient";
  static constexpr bool repeats = false;
  Tensor dweight;  ///< (E, N, K) float32
  ConstTensor x;   ///< (R, N) compute dtype
  ConstTensor y;   ///< (R, K) compute dtype
  ExpertOffsets offsets;

  template <class Visitor>
  void describe(Visitor& op) const {
    op.in("x", x, "R N", Types::compute);
    op.in("y", y, "R K", Types::compute);
    op.add("dweight", dweight, "E N K", Types::float32);
    op.require(are_offsets(offsets, dweight.shape[0], x.shape[0]),
               "offsets are not those of the experts within the rows");
  }
};

/// For each expert e: dbias[e] += the column sums of its rows.
struct GroupedBiasGradient {
  static constexpr const char* name = "grouped_bias_gradient";
  static constexpr Pass pass = Pass::add;
  static constexpr bool repeats = false;
  Tensor dbias;    ///< (E, N) float32
  ConstTensor dy;  ///< (R, N) compute dtype
  ExpertOffsets offsets;

  template <class Visitor>
  void describe(Visitor& op) const {
    op.in("dy", dy, "R N", Types::any);
    op.add("dbias", dbias, "E N", Types::float32);
    op.require(are_offsets(offsets, dbias.shape[0], dy.shape[0]),
               "offsets are not those of the experts within the rows");
  }
};

}  // namespace sft::ops
