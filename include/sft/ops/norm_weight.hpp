// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "sft/ops/describe.hpp"
#include "sft/tensor/tensor.hpp"

namespace sft::ops {

/// The weight of a norm, float32 or of the compute dtype: normed elements are multiplied by `tensor` + `offset`. Gemma
/// stores it without the 1, which is the offset then.
struct NormWeight {
  NormWeight(const ConstTensor& weight, float added = 0.0F) : tensor(weight), offset(added) {}  // NOLINT: is a weight
  NormWeight(const Tensor& weight, float added = 0.0F) : tensor(weight), offset(added) {}       // NOLINT: is a weight

  ConstTensor tensor;
  float offset;

  /// As a part of an op that has described a tensor of the compute dtype.
  template <class Visitor>
  void describe(Visitor& op, const char* dims) const {
    op.in("weight", tensor, dims, Types::compute_or_float32);
    op.scalar("offset", offset);
  }
};

}  // namespace sft::ops
