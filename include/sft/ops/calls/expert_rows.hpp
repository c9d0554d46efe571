// SPDX-License-Identifier: Apache-2.0
#pragma once
// Rows of experts, without dropped tokens (Gale et al. 2022, "MegaBlocks"): the tokens are laid out expert by expert,
// and each token gets the weighted sum of its rows back.
//
// Legend: T tokens, C hidden size, E experts, k choices of a token, R rows in the order of experts, of which some may
// hold no token. Choice j of token t is number t k + j. All sums are formed in one order: the same call gives the same
// bits.

#include <cstdint>

#include "sft/ops/calls/router.hpp"
#include "sft/ops/describe.hpp"
#include "sft/ops/pass.hpp"
#include "sft/tensor/tensor.hpp"

namespace sft::ops {

inline constexpr std::int64_t max_ordered_choices = std::int64_t{1} << 20;

/// Lays out the choices of all tokens expert by expert, in their order. The rows of expert e begin at offsets[e], a
/// multiple of `alignment`, and end at offsets[e + 1]; its tokens come first. T k is at most max_ordered_choices. On
/// CPUs an alignment of 16 makes products of few different sizes, whose machine code is kept (cpu/matmul.hpp).
struct ExpertOrder {
  static constexpr const char* name = "expert_order";
  static constexpr Pass pass = Pass::copy;
  static constexpr bool repeats = false;
  ConstTensor experts;         ///< (T, k) int32, each in [0, E)
  Tensor counts;               ///< (E) int32: choices of each expert
  Tensor offsets;              ///< (E + 1) int32
  Tensor choices;              ///< (R) int32: the choice that lies in a row; -1: none
  Tensor rows;                 ///< (T, k) int32: the row of a choice
  std::int64_t alignment = 1;  ///< a power of two; R >= T k + E (alignment - 1)

  template <class Visitor>
  void describe(Visitor& op) const {
    op.in("experts", experts, "T k", Types::int32);
    op.out("counts", counts, "E", Types::int32);
    op.out("offsets", offsets, "E+1", Types::int32);
    op.out("choices", choices, "R", Types::int32);
    op.out("rows", rows, "T k", Types::int32);
    op.scalar("alignment", alignment);
    const std::int64_t num_choices = experts.shape[0] * experts.shape[1], num_experts = counts.shape[0];
    op.require(num_experts > 0 && num_experts <= max_experts, "counts has no experts, or too many");
    op.require(num_choices <= max_ordered_choices, "experts has more choices than max_ordered_choices");
    op.require(alignment > 0 && (alignment & (alignment - 1)) == 0, "alignment is no power of two");
    op.require(choices.shape[0] >= num_choices + num_experts * (alignment - 1), "choices has no room for all choices");
  }
};

/// out[r] = weight * in[token of row r]; 0 where a row holds none.
struct GatherTokens {
  static constexpr const char* name = "gather_tokens";
  static constexpr bool repeats = false;
  Tensor out;                ///< (R, C) compute dtype
  ConstTensor in;            ///< (T, C) compute dtype
  ConstTensor choices;       ///< (R) int32, of ExpertOrder
  ConstTensor weights;       ///< (T, k) float32; empty: 1
  std::int64_t num_choices;  ///< k

  template <class Visitor>
  void describe(Visitor& op) const {
    op.in("in", in, "T C", Types::compute);
    op.in("choices", choices, "R", Types::int32);
    op.dim('k', num_choices);
    op.in("weights", weights, "T k", Types::float32, optional);
    op.out("out", out, "R C", Types::compute);
    op.scalar("num_choices", num_choices);
    op.require(num_choices > 0, "num_choices is no number of choices");
  }
};

/// out[t] = or, with `accumulate`, += the sum over j, in this order and in float32, of weight * in[rows[t, j]]. It is
/// the backward pass of GatherTokens, and GatherTokens that of it.
struct CombineRows {
  static constexpr const char* name = "combine_rows";
  static constexpr Pass pass = Pass::add;
  static constexpr bool repeats = false;
  Tensor out;           ///< (T, C) compute dtype or float32
  ConstTensor in;       ///< (R, C) compute dtype
  ConstTensor rows;     ///< (T, k) int32, of ExpertOrder
  ConstTensor weights;  ///< (T, k) float32; empty: 1
  bool accumulate = false;

  template <class Visitor>
  void describe(Visitor& op) const {
    op.in("in", in, "R C", Types::compute);
    op.in("rows", rows, "T k", Types::int32);
    op.in("weights", weights, "T k", Types::float32, optional);
    accumulate ? op.add("out", out, "T C", Types::compute_or_float32)
               : op.out("out", out, "T C", Types::compute_or_float32);
    op.scalar("accumulate", accumulate);
  }
};

/// dweights[t, j] = the sum over C of dout[t] * in[rows[t, j]]: the gradient of the weights of CombineRows.
struct CombineWeightsBackward {
  static constexpr const char* name = "combine_weights_backward";
  static constexpr Pass pass = Pass::add;
  static constexpr bool repeats = false;
  Tensor dweights;   ///< (T, k) float32
  ConstTensor dout;  ///< (T, C) compute dtype
  ConstTensor in;    ///< (R, C) compute dtype
  ConstTensor rows;  ///< (T, k) int32

  template <class Visitor>
  void describe(Visitor& op) const {
    op.in("in", in, "R C", Types::compute);
    op.in("dout", dout, "T C", Types::compute);
    op.in("rows", rows, "T k", Types::int32);
    op.out("dweights", dweights, "T k", Types::float32);
  }
};

}  // namespace sft::ops
