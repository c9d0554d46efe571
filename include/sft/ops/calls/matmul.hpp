// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "sft/ops/describe.hpp"
#include "sft/ops/pass.hpp"
#include "sft/tensor/tensor.hpp"

namespace sft::ops {

/// c = op(a) op(b) [+ bias] [+ c]. op transposes where asked. a, b, c are 2-D and may be strided; a and b have the same
/// compute dtype, c has it too or is float32. Nothing where c is empty.
struct Matmul {
  static constexpr const char* name = "matmul";
  ConstTensor a, b;
  Tensor c;
  bool transpose_a = false, transpose_b = false;
  bool accumulate = false;
  ConstTensor bias{};  ///< of a's dtype, an entry for each column of c, or empty

  template <class Visitor>
  void describe(Visitor& op) const {
    op.in("a", a, transpose_a ? "K M" : "M K", Types::compute, strided);
    op.in("b", b, transpose_b ? "N K" : "K N", Types::compute, strided);
    accumulate ? op.add("c", c, "M N", Types::compute_or_float32, strided)
               : op.out("c", c, "M N", Types::compute_or_float32, strided);
    op.in("bias", bias, "N", Types::compute, optional);
    op.scalar("transpose_a", transpose_a);
    op.scalar("transpose_b", transpose_b);
    op.scalar("accumulate", accumulate);
  }
};

/// dbias += the column sums of dy.
struct BiasBackward {
  static constexpr const char* name = "bias_backward";
  static constexpr Pass pass = Pass::add;
  Tensor dbias;    ///< (N) float32
  ConstTensor dy;  ///< (T, N) compute dtype, strided

  template <class Visitor>
  void describe(Visitor& op) const {
    op.in("dy", dy, "T N", Types::any, strided);
    op.add("dbias", dbias, "N", Types::float32);
  }
};

}  // namespace sft::ops
