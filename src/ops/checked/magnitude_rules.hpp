// SPDX-License-Identifier: Apache-2.0
#pragma once
// The rules of the ops of sft/ops/magnitudes.hpp. A rule that is broken is a std::logic_error, as in call.hpp.

#include "sft/ops/magnitudes.hpp"

namespace sft::ops::checked {

void check_scale_columns(const ScaleColumns& columns);
void check_column_products(const ColumnProducts& products);
void check_row_products(const RowProducts& products);
void check_magnitude_factors(const MagnitudeFactors& factors);

}  // namespace sft::ops::checked
