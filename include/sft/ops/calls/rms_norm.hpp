// SPDX-License-Identifier: Apache-2.0
#pragma once
// RMSNorm (Zhang & Sennrich 2019).

#include "sft/ops/describe.hpp"
#include "sft/ops/norm_weight.hpp"
#include "sft/ops/pass.hpp"
#include "sft/tensor/tensor.hpp"

namespace sft::ops {

/// y = x * rstd * weight.
struct RmsNormForward {
  static constexpr const char* name = "rms_norm_forward";
  static constexpr Pass pass = Pass::norm_forward;
  Tensor y;           ///< (T, C) compute dtype
  Tensor rstd;        ///< (T) float32
  ConstTensor x;      ///< (T, C) compute dtype
  NormWeight weight;  ///< (C) compute dtype or float32
  float epsilon;

  template <class Visitor>
  void describe(Visitor& op) const {
    op.in("x", x, "T C", Types::compute);
    op.out("y", y, "T C", Types::compute);
    op.out("rstd", rstd, "T", Types::float32);
    weight.describe(op, "C");
    op.scalar("epsilon", epsilon);
  }
};

/// sum = x + delta, rounded to its dtype, then RmsNormForward of sum.
struct AddRmsNormForward {
  static constexpr const char* name = "add_rms_norm_forward";
  static constexpr Pass pass = Pass::norm_forward;
  Tensor sum;         ///< (T, C) compute dtype; may be x
  Tensor y;           ///< (T, C) compute dtype; may be delta
  Tensor rstd;        ///< (T) float32
  ConstTensor x;      ///< (T, C) compute dtype
  ConstTensor delta;  ///< (T, C) compute dtype or float32
  NormWeight weight;  ///< (C) compute dtype or float32
  float epsilon;

  template <class Visitor>
  void describe(Visitor& op) const {
    op.in("x", x, "T C", Types::compute);
    op.out("sum", sum, "T C", Types::compute);
    op.out("y", y, "T C", Types::compute);
    op.out("rstd", rstd, "T", Types::float32);
    op.in("delta", delta, "T C", Types::compute_or_float32);
    weight.describe(op, "C");
    op.scalar("epsilon", epsilon);
    op.may_be("sum", "x");
    op.may_be("y", "delta");
  }
};

/// y = x * rstd * weight with a known rstd.
struct RmsNormApply {
  static constexpr const char* name = "rms_norm_apply";
  static constexpr Pass pass = Pass::norm_forward;
  Tensor y;           ///< (T, C) compute dtype
  ConstTensor x;      ///< (T, C) compute dtype
  ConstTensor rstd;   ///< (T) float32
  NormWeight weight;  ///< (C) compute dtype or float32

  template <class Visitor>
  void describe(Visitor& op) const {
    op.in("x", x, "T C", Types::compute);
    op.out("y", y, "T C", Types::compute);
    op.in("rstd", rstd, "T", Types::float32);
    weight.describe(op, "C");
  }
};

/// dx = dresidual + the gradient through the norm; dweight += its gradient.
struct RmsNormBackward {
  static constexpr const char* name = "rms_norm_backward";
  static constexpr Pass pass = Pass::norm_backward;
  Tensor dx;                ///< (T, C) compute dtype; may be x
  Tensor dweight;           ///< (C) float32; empty: not asked for
  ConstTensor dy;           ///< (T, C) compute dtype or float32
  ConstTensor x;            ///< (T, C) compute dtype
  ConstTensor rstd;         ///< (T) float32
  NormWeight weight;        ///< (C) compute dtype or float32
  ConstTensor dresidual{};  ///< (T, C) compute dtype, may be dx; empty: zero

  template <class Visitor>
  void describe(Visitor& op) const {
    op.in("x", x, "T C", Types::compute);
    op.out("dx", dx, "T C", Types::compute);
    op.add("dweight", dweight, "C", Types::float32, optional);
    op.in("dy", dy, "T C", Types::compute_or_float32);
    op.in("rstd", rstd, "T", Types::float32);
    weight.describe(op, "C");
    op.in("dresidual", dresidual, "T C", Types::compute, optional);
    op.may_be("dx", "dresidual");
    op.may_be("dx", "x");
  }
};

}  // namespace sft::ops
