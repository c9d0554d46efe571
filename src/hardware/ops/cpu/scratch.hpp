// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace sft::ops::cpu {

/// Scratch floats shared by all threads of an op.
struct Scratch {
  float* data;
  std::int64_t num_floats;
};

/// Scratch of an op that sums up columns, unless one row of them is larger.
inline constexpr std::int64_t column_sum_floats = std::int64_t{1} << 18;

}  // namespace sft::ops::cpu
