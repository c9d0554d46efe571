// SPDX-License-Identifier: Apache-2.0
#pragma once
// Text from a trained model, the likeliest token at a time.

#include <cstdint>
#include <span>
#include <vector>

#include "sft/train/engine.hpp"

namespace sft::train {

struct GenerateOptions {
  std::int64_t max_new_tokens = 128;
  std::int64_t num_token_ids = 0;         ///< at least 1; only ids below this are produced: those the tokenizer knows
  std::vector<std::int32_t> stop_tokens;  ///< end the text and are no part of it
};

/// The greedy continuation of `prompt` (at least one token), without it. One rank; prompt and new tokens together fit
/// the engine's max_length. Every token costs a whole forward pass.
[[nodiscard]] std::vector<std::int32_t> generate(Engine& engine, std::span<const std::int32_t> prompt,
                                                 const GenerateOptions& options);

}  // namespace sft::train
