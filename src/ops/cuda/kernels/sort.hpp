// SPDX-License-Identifier: Apache-2.0
#pragma once
// Token positions in the order of their ids: a stable radix sort (least significant digit first, 8 bits a pass) of
// tiles (Satish, Harris & Garland 2009), the same whatever the schedule.

#include "ops/cuda/kernels/view.hpp"

namespace sft::ops::cuda {

inline constexpr std::int64_t sort_tile = 2048;  ///< elements that a block sorts
inline constexpr std::int64_t sort_digits = 256;

/// Keys and the values that travel with them.
struct Pairs {
  std::uint32_t *keys, *values;
};

/// Fills `pairs` with (id of token - vocab_begin, position), ids outside [0, num_ids) becoming num_ids, sorts by id and
/// returns which of `pairs` and `other` holds the result, the other being scratch. Each has num_tokens entries,
/// `counts` sort_digits for each started sort_tile. Moves 12 bytes a token, and about 23 more in each pass.
[[nodiscard]] Pairs sort_tokens(const std::int32_t* tokens, std::int64_t num_tokens, std::int64_t vocab_begin,
                                std::int64_t num_ids, Pairs pairs, Pairs other, std::uint32_t* counts,
                                cudaStream_t stream);

}  // namespace sft::ops::cuda
