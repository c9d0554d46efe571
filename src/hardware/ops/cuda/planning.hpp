// SPDX-License-Identifier: Apache-2.0
#pragma once
// Memory of the CUDA backend for shapes that are only planned, in builds without CUDA too.

#include <cstddef>
#include <cstdint>

#include "sft/ops/shapes.hpp"

namespace sft::ops::cuda {

/// Scratch of one op: what cuBLASLt works with on Hopper, and more than sums over rows of a million columns need.
inline constexpr std::size_t scratch_bytes = std::size_t{32} << 20;

/// A multiple of this many bytes of a PlanPool is handed out at a time.
inline constexpr std::size_t plan_granularity_bytes = 256;

/// Entries that documents add to a list of a plan with room for others: so many at least, and a power of two.
inline constexpr std::int64_t least_parts = 16;

/// The next multiple of plan_granularity_bytes.
[[nodiscard]] constexpr std::size_t padded(std::size_t bytes) {
  return (bytes + plan_granularity_bytes - 1) / plan_granularity_bytes * plan_granularity_bytes;
}

/// Bytes of a PlanPool for the plans of a model of these shapes, with what they need in alignment. Pure.
[[nodiscard]] std::size_t plan_pool_bytes(const Shapes& shapes, const AttentionNeeds& needs);

}  // namespace sft::ops::cuda
