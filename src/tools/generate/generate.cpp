// SPDX-License-Identifier: Apache-2.0
#include "sft/generate/generate.hpp"

#include <algorithm>
#include <chrono>

#include "sft/core/ensure.hpp"

namespace sft::generate {

namespace {

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

Generated generate(Generator& generator, Sampler& sampler, std::span<const std::int32_t> prompt,
                   const GenerateOptions& options, const std::function<bool(std::span<const std::int32_t>)>& on_token) {
  SFT_ENSURE(!prompt.empty(), "generation from an empty prompt");
  Generated result;
  const auto begin = std::chrono::steady_clock::now();
  // The last token of the prompt is always read: its logits are the first that are needed.
  const auto common = std::ranges::mismatch(generator.tokens(), prompt.first(prompt.size() - 1)).in2 - prompt.begin();
  generator.rewind(common);
  const auto unread = prompt.subspan(generator.tokens().size());
  result.num_read_tokens = std::ssize(unread);
  std::vector<float> logits = generator.append(unread);
  result.read_time_s = seconds_since(begin);

  const std::size_t num_ids = std::min(generator.vocab_size(), options.num_token_ids);
  while (true) {
    if (options.keeps_logits) result.logits.push_back(logits);
    const std::int32_t next = sampler.choose(std::span(logits).first(num_ids));
    result.is_stopped = std::ranges::find(options.stop_tokens, next) != options.stop_tokens.end();
    if (result.is_stopped) break;
    result.tokens.push_back(next);
    if (on_token && !on_token(result.tokens)) break;
    if (std::ssize(result.tokens) == options.max_new_tokens) break;
    logits = generator.append(std::span(&result.tokens.back(), 1));
  }
  result.write_time_s = seconds_since(begin) - result.read_time_s;
  return result;
}

}  // namespace sft::generate
