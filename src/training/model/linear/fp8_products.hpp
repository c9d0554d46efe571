// SPDX-License-Identifier: Apache-2.0
#pragma once
// Products of linear layers in 8-bit floats: both operands are rounded, each with scales of its own numbers,
// then multiplied with sums in float32 (Micikevicius et al. 2022; blockwise as DeepSeek-V3, arXiv 2412.19437,
// section 3.3, but for gradients in E5M2).

#include "sft/model/context.hpp"
#include "sft/model/linear/fp8_buffers.hpp"
#include "sft/ops/backend.hpp"

namespace sft::model {

/// What an operand of a product is. Activations and weights are rounded to E4M3, gradients to E5M2.
enum class Fp8Operand { activation, weight, gradient };

/// For the two products of the gradient of that layer's output; without memory where the run has no fp8.
[[nodiscard]] GradientCodes gradient_codes(const Context& c, LayerOfTwo layer);

/// Rounds a and b of the product, whose c is not read. Of `tensorwise` scales a matrix has one: of the slices that the
/// ranks of tp have of it, which all call this for the same layer, but not of other tokens elsewhere. `scales_of_b`:
/// where b is a weight of which the codes were gathered (ShardedUnits::fp8_scales); else empty. `codes`: of the operand
/// that is the gradient of a layer's output, which goes into two products, of which the second has it transposed: the
/// first of them rounds it to both layouts, from one pass over the numbers, and the second reads the codes. Nobody
/// writes their memory between the two. Null: one product has it. `room`: where codes lie, until something else is
/// rounded there.
[[nodiscard]] Fp8Operands round_operands(const Context& c, const ops::Matmul& product, Fp8Operand a, Fp8Operand b,
                                         const Tensor& scales_of_b, GradientCodes* codes, Fp8Room room = Fp8Room::any);

/// The product with a and b in fp8 where the run has that (Context::fp8), else as it is.
void multiply_in_fp8(const Context& c, const ops::Matmul& product, Fp8Operand a, Fp8Operand b,
                     const Tensor& scales_of_b = {}, GradientCodes* codes = nullptr);

/// columns (T, count) = those columns [begin, begin + count) of the whole product, with the scales that the operands
/// have for it. `bias` (count); empty: none.
void multiply_columns_in_fp8(const Context& c, const Fp8Operands& operands, std::int64_t begin, const Tensor& columns,
                             const Tensor& bias);

}  // namespace sft::model
