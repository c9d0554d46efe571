// SPDX-License-Identifier: Apache-2.0
#pragma once
// An op on tensors as a value: every op of every backend, one of which a Call holds. A layer in front of a backend
// (checks, repeats, counts, clocks) is then one function over a Call. Pure.
//
// Legend of calls/: T tokens of this rank, C hidden size, H query heads, K key/value heads, D head dim, F MLP columns,
// V vocabulary rows of this rank, N any size. "compute dtype" is float32 or bf16, the same in all tensors of a call
// that have it; sums run in float32 or float64 in both. "+=" adds to what the output holds; outputs are otherwise
// overwritten. Views may have a stride between rows where a comment says "strided"; all others are contiguous.
// Gradients of parameters are always float32 and always "+=". Tensors belong to the caller. Memory that an op reads or
// writes stays valid until the stream has passed it.
//
// A tensor that an op writes shares memory with no other tensor of the call, unless it says that it may be that tensor.

#include <cstddef>
#include <variant>

#include "sft/ops/calls/attention.hpp"
#include "sft/ops/calls/cross_entropy.hpp"
#include "sft/ops/calls/dropout.hpp"
#include "sft/ops/calls/elementary.hpp"
#include "sft/ops/calls/embedding.hpp"
#include "sft/ops/calls/expert_rows.hpp"
#include "sft/ops/calls/factored_update.hpp"
#include "sft/ops/calls/four_bits.hpp"
#include "sft/ops/calls/fp8.hpp"
#include "sft/ops/calls/gated.hpp"
#include "sft/ops/calls/grouped_matmul.hpp"
#include "sft/ops/calls/magnitudes.hpp"
#include "sft/ops/calls/matmul.hpp"
#include "sft/ops/calls/rms_norm.hpp"
#include "sft/ops/calls/rope.hpp"
#include "sft/ops/calls/router.hpp"
#include "sft/ops/calls/split_norm.hpp"
#include "sft/ops/calls/update.hpp"

namespace sft::ops {

using Call =
    std::variant<Fill, Copy, Add, Scale, SumSquares, DivideByNorm, FillNormal, FillUniform, AddUniform, Dropout,
                 EmbeddingForward, EmbeddingBackward, RmsNormForward, AddRmsNormForward, RmsNormApply, RmsNormBackward,
                 SplitNormSquares, SplitNormForward, SplitNormDots, SplitNormBackward, WriteRopeTable, RopeForward,
                 RopeBackward, NormRopeForward, NormRopeBackward, Matmul, BiasBackward, ScaleColumns, AddColumnProducts,
                 AddRowProducts, MagnitudeFactors, ReadFourBits, FindFp8Scale, RoundToFp8, RaiseFp8Scales, RoundFp8Run,
                 ArrangeFp8, Fp8Matmul, AttentionForward, AttentionDelta, AttentionBackward, AttentionSinksBackward,
                 RouterForward, RouterBackward, RouterSums, RouterSumsBackward, ExpertOrder, GatherTokens, CombineRows,
                 CombineWeightsBackward, GroupedMatmul, GroupedWeightGradient, GroupedBiasGradient, GatedForward,
                 GatedBackward, SoftCap, CrossEntropyMax, CrossEntropyPartials, CrossEntropyFinish, Update,
                 UpdateBlockwise, RaiseScales, SumSquaresByDim, MomentFactors, AddDirectionSquares, UpdateFactored>;

/// The name of the op: "rms_norm_forward".
[[nodiscard]] inline const char* name_of(const Call& call) {
  return std::visit([]<class Op>(const Op&) { return Op::name; }, call);
}

}  // namespace sft::ops
