// SPDX-License-Identifier: Apache-2.0
#pragma once
// The rules of the ops that make an optimizer's step, as ops/backend.hpp states them.

#include <string_view>

#include "sft/ops/backend.hpp"

namespace sft::ops::checked {

void check_update(std::string_view op, const Update& step);
void check_blockwise_update(std::string_view op, const BlockwiseUpdate& step);
/// The rules of Backend::raise_scales, which needs neither parameters nor a copy.
void check_raised_scales(std::string_view op, const BlockwiseUpdate& step);
void check_square_sums(std::string_view op, const SquareSums& sums);
void check_moment_factors(std::string_view op, const MomentFactors& step);
/// The rules of Backend::update_factored, or, without `writes_parameters`, of add_direction_squares.
void check_factored_update(std::string_view op, const FactoredUpdate& step, bool writes_parameters);

}  // namespace sft::ops::checked
