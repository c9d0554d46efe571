// SPDX-License-Identifier: Apache-2.0
#include "sft/train/generate.hpp"

#include <algorithm>

#include "sft/core/error.hpp"

namespace sft::train {

std::vector<std::int32_t> generate(Engine& engine, std::span<const std::int32_t> prompt,
                                   const GenerateOptions& options) {
  ensure(!prompt.empty(), "generation from an empty prompt");
  std::vector<std::int32_t> tokens(prompt.begin(), prompt.end());
  for (std::int64_t i = 0; i < options.max_new_tokens; ++i) {
    const std::vector<float> logits = engine.logits(tokens, /*last_only=*/true);
    const auto known_end = logits.begin() + std::min<std::ptrdiff_t>(std::ssize(logits), options.num_token_ids);
    const auto next = static_cast<std::int32_t>(std::max_element(logits.begin(), known_end) - logits.begin());
    if (std::ranges::find(options.stop_tokens, next) != options.stop_tokens.end()) break;
    tokens.push_back(next);
  }
  return {tokens.begin() + std::ssize(prompt), tokens.end()};
}

}  // namespace sft::train
