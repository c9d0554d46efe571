// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "sft/ops/describe.hpp"
#include "sft/ops/pass.hpp"
#include "sft/tensor/tensor.hpp"

namespace sft::ops {

/// out = or, with `accumulate`, += in / (1 - probability), with elements that are dropped 0 (Srivastava et al. 2014).
/// The element of `in` that lies i elements after the first is dropped with that probability, drawn from the seed and
/// first_index + i alone: the backward pass is the same call, and so is any slice of the tensor, of rows or of columns
/// where they lie. The seed is read when the op runs, so that calls of other micro-batches are the same call.
struct Dropout {
  static constexpr const char* name = "dropout";
  static constexpr Pass pass = Pass::add;
  Tensor out;         ///< float32 or bf16, strided; may be in
  ConstTensor in;     ///< float32 or bf16, of the same shape, strided
  float probability;  ///< 0 <= probability < 1
  ConstTensor seed;   ///< (8) uint8, aligned to 8 bytes: a 64-bit number as processors hold it, of the micro-batch
  // Place of this op in the sequence of random numbers: no other op has the same.
  std::uint64_t number = 0;
  std::uint64_t part = 0;
  std::int64_t first_index = 0;
  bool accumulate = false;

  template <class Visitor>
  void describe(Visitor& op) const {
    op.in("in", in, "...", Types::any, strided);
    accumulate ? op.add("out", out, "...", Types::any, strided) : op.out("out", out, "...", Types::any, strided);
    op.in("seed", seed, "8", Types::uint8);
    op.scalar("probability", probability);
    op.scalar("number", number);
    op.scalar("part", part);
    op.scalar("first_index", first_index);
    op.scalar("accumulate", accumulate);
    op.may_be("out", "in");
    op.require(probability >= 0.0F && probability < 1.0F, "probability is not in [0, 1)");
    op.require(first_index >= 0, "first_index is negative");
    op.require(reinterpret_cast<std::uintptr_t>(seed.data) % 8 == 0, "the seed is not aligned");
  }
};

}  // namespace sft::ops
