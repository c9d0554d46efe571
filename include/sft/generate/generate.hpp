// SPDX-License-Identifier: Apache-2.0
#pragma once
// Text from a model, token by token.

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "sft/generate/generator.hpp"
#include "sft/generate/sampler.hpp"

namespace sft::generate {

struct GenerateOptions {
  std::int64_t max_new_tokens = 128;
  std::int64_t num_token_ids = 0;         ///< at least 1; only ids below this are produced: those the tokenizer knows
  std::vector<std::int32_t> stop_tokens;  ///< end the text and are no part of it
  bool keeps_logits = false;
};

struct Generated {
  std::vector<std::int32_t> tokens;  ///< what follows the prompt
  /// With keeps_logits: what each of these was chosen from (V), and a stop token behind them.
  std::vector<std::vector<float>> logits;
  bool is_stopped = false;           ///< by a stop token, not by max_new_tokens
  std::int64_t num_read_tokens = 0;  ///< of the prompt that were not in the cache yet
  double read_time_s = 0.0;          ///< for those, up to the first logits
  double write_time_s = 0.0;         ///< from there to the end
};

/// Continues `prompt`, at least one token; with the new tokens it fits generator.max_tokens(). What the generator's
/// text has in common with the prompt is not read again; afterwards its text is the prompt with all new tokens but
/// possibly the last. `on_token`, which may be empty, sees the new tokens so far, after each of them; false from it
/// ends the text.
[[nodiscard]] Generated generate(Generator& generator, Sampler& sampler, std::span<const std::int32_t> prompt,
                                 const GenerateOptions& options,
                                 const std::function<bool(std::span<const std::int32_t>)>& on_token = {});

}  // namespace sft::generate
