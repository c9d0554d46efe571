// SPDX-License-Identifier: Apache-2.0
#pragma once
// The rules of the ops that make an optimizer's step, as ops/backend.hpp states them.

#include <string_view>

#include "sft/ops/backend.hpp"

namespace sft::ops::checked {

void check_update(std::string_view op, const Update& step);
void check_blockwise_update(std::string_view op, const BlockwiseUpdate& step);
/// Of Backend::raise_scales, which needs neither parameters nor a copy.
void check_raised_scales(std::string_view op, const BlockwiseUpdate& step);

}  // namespace sft::ops::checked
