// SPDX-License-Identifier: Apache-2.0
#pragma once
// Rotary embedding (Su et al. 2021) in the half-split layout of Hugging Face: pairs are R/2 dims apart. The first R
// dims of a head turn: D, unless an op says that there may be fewer.

#include <algorithm>
#include <cstdint>

#include "sft/ops/describe.hpp"
#include "sft/ops/norm_weight.hpp"
#include "sft/ops/pass.hpp"
#include "sft/tensor/tensor.hpp"

namespace sft::ops {

/// Heads have at most so many dims, an even number.
inline constexpr std::int64_t max_head_dim = 256;

/// The angles as WriteRopeTable writes them, (T, R/2) float32.
struct RopeTable {
  ConstTensor cosine, sine;

  /// As a part of an op that has described heads "T n D"; `half` pairs of each turn.
  template <class Visitor>
  void describe(Visitor& op, std::int64_t half, Form form = contiguous) const {
    op.dim('P', half);
    op.in("table.cosine", cosine, "T P", Types::float32, form);
    op.in("table.sine", sine, "T P", Types::float32, form);
  }
};

/// The factor of the cosine and sine of a position: factor (1 + beta ln(1 + floor(position / length))). With beta, a
/// table turns queries that grow with their position (Ministral 3, after Nakanishi 2025).
struct RopeScale {
  float factor = 1.0F;
  float beta = 0.0F;
  std::int64_t length = 1;  ///< of the positions that do not grow, above 0
};

/// The cosine and sine, scaled, of positions times inverse frequencies.
struct WriteRopeTable {
  static constexpr const char* name = "rope_table";
  static constexpr Pass pass = Pass::rope;
  Tensor cosine, sine;              ///< (T, R/2) float32
  ConstTensor positions;            ///< (T) int32
  ConstTensor inverse_frequencies;  ///< (R/2) float64
  RopeScale scale;

  template <class Visitor>
  void describe(Visitor& op) const {
    op.in("positions", positions, "T", Types::int32);
    op.in("inverse_frequencies", inverse_frequencies, "P", Types::float64);
    op.out("cosine", cosine, "T P", Types::float32);
    op.out("sine", sine, "T P", Types::float32);
    op.scalar("scale.factor", scale.factor);
    op.scalar("scale.beta", scale.beta);
    op.scalar("scale.length", scale.length);
  }
};

/// May be in place, and is with R < D: the other dims stay.
struct RopeForward {
  static constexpr const char* name = "rope_forward";
  static constexpr Pass pass = Pass::rope;
  Tensor out;      ///< (T, n, D) compute dtype, strided
  ConstTensor in;  ///< (T, n, D) compute dtype, strided
  RopeTable table;

  template <class Visitor>
  void describe(Visitor& op) const {
    op.in("in", in, "T n D", Types::compute, strided);
    op.out("out", out, "T n D", Types::compute, strided);
    const std::int64_t all = in.shape[2] / 2, half = std::min(table.cosine.shape[1], all);
    table.describe(op, half);
    op.may_be("out", "in");
    op.require(in.shape[2] % 2 == 0, "in has an odd head dim");
    op.require(half == all || out.data == in.data, "out is not in, where some dims do not turn");
  }
};

/// In place where the forward pass is.
struct RopeBackward {
  static constexpr const char* name = "rope_backward";
  static constexpr Pass pass = Pass::rope;
  Tensor din;        ///< (T, n, D) compute dtype, strided
  ConstTensor dout;  ///< (T, n, D) compute dtype, strided
  RopeTable table;

  template <class Visitor>
  void describe(Visitor& op) const {
    op.in("dout", dout, "T n D", Types::compute, strided);
    op.out("din", din, "T n D", Types::compute, strided);
    const std::int64_t all = dout.shape[2] / 2, half = std::min(table.cosine.shape[1], all);
    table.describe(op, half);
    op.may_be("din", "dout");
    op.require(dout.shape[2] % 2 == 0, "dout has an odd head dim");
    op.require(half == all || din.data == dout.data, "din is not dout, where some dims do not turn");
  }
};

/// Rotary embedding of heads to which RMSNorm is applied first (Qwen3).
struct NormRopeForward {
  static constexpr const char* name = "norm_rope_forward";
  static constexpr Pass pass = Pass::norm_forward;
  Tensor out;         ///< (T, n, D) compute dtype, strided; may be in
  Tensor rstd;        ///< (T, n) float32
  ConstTensor in;     ///< (T, n, D) compute dtype, strided
  NormWeight weight;  ///< (D) compute dtype or float32
  RopeTable table;    ///< of all dims, or empty: heads are normed alone
  float epsilon;

  template <class Visitor>
  void describe(Visitor& op) const {
    op.in("in", in, "T n D", Types::compute, strided);
    op.out("out", out, "T n D", Types::compute, strided);
    op.out("rstd", rstd, "T n", Types::float32);
    weight.describe(op, "D");
    table.describe(op, in.shape[2] / 2, table.cosine.empty() && table.sine.empty() ? optional : contiguous);
    op.scalar("epsilon", epsilon);
    op.may_be("out", "in");
    op.require(in.shape[2] % 2 == 0 && in.shape[2] <= max_head_dim, "in has a head dim that is odd or above 256");
  }
};

struct NormRopeBackward {
  static constexpr const char* name = "norm_rope_backward";
  static constexpr Pass pass = Pass::norm_backward;
  Tensor din;         ///< (T, n, D) compute dtype, strided; may be dout
  Tensor dweight;     ///< (D) float32; empty: not asked for
  ConstTensor dout;   ///< (T, n, D) compute dtype, strided
  ConstTensor in;     ///< (T, n, D) compute dtype, strided: the forward pass's input
  ConstTensor rstd;   ///< (T, n) float32
  NormWeight weight;  ///< (D) compute dtype or float32
  RopeTable table;    ///< as in the forward pass

  template <class Visitor>
  void describe(Visitor& op) const {
    op.in("in", in, "T n D", Types::compute, strided);
    op.out("din", din, "T n D", Types::compute, strided);
    op.add("dweight", dweight, "D", Types::float32, optional);
    op.in("dout", dout, "T n D", Types::compute, strided);
    op.in("rstd", rstd, "T n", Types::float32);
    weight.describe(op, "D");
    table.describe(op, in.shape[2] / 2, table.cosine.empty() && table.sine.empty() ? optional : contiguous);
    op.may_be("din", "dout");
    op.require(in.shape[2] % 2 == 0 && in.shape[2] <= max_head_dim, "in has a head dim that is odd or above 256");
  }
};

}  // namespace sft::ops
