// SPDX-License-Identifier: Apache-2.0
#pragma once
// Small models and packed rows that are meant to be awkward: what a mesh could get wrong is in every batch.

#include <cstdint>
#include <vector>

#include "sft/config/config.hpp"
#include "sft/rows/packed_dataset.hpp"

namespace sft::test {

/// Of every small model; divides into 2, 3, 4, 6, 8 and 16 parts.
inline constexpr std::int64_t small_vocab_size = 96;

/// 4 query heads over 2 key/value heads, tied, llama3 rope scaling.
[[nodiscard]] config::Model small_llama();
/// 6 query heads over 2 key/value heads, biases, untied.
[[nodiscard]] config::Model small_qwen2();
/// 4 query heads over 1 key/value head, q/k norm, tied, 3 layers.
[[nodiscard]] config::Model small_qwen3();
/// 4 query heads over 1 key/value head; norms, gate and embedding of Gemma 3, and a window on one of its two layers.
[[nodiscard]] config::Model small_gemma3();
/// 4 query heads over 2 key/value heads; norms behind attention and MLP alone, those of q and k over all heads.
[[nodiscard]] config::Model small_olmo2();

/// `num_rows` rows from `seed` alone. Among them: documents of odd lengths and of length 1, one document as long as the
/// row, rows that are mostly padding (so that parts of a sequence-parallel cut hold nothing else), rows without any
/// document, rows without any target, fractional weights, and weights on first tokens, which must not count.
[[nodiscard]] std::vector<rows::Row> make_awkward_rows(std::int64_t num_rows, std::int64_t max_length,
                                                       std::uint64_t seed);

}  // namespace sft::test
