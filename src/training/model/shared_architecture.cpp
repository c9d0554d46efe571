// SPDX-License-Identifier: Apache-2.0
// Architectures that plans of many runs of one model share.
#include <algorithm>
#include <deque>
#include <memory>

#include "sft/model/architecture.hpp"

namespace sft::model {

std::shared_ptr<const Architecture> shared_architecture(const config::ValidConfig& config) {
  struct Made {
    config::Model model;
    config::Lora lora;
    int blocks_per_unit;
    bool cuts_tokens;
    SentTiles sent;
    std::shared_ptr<const Architecture> architecture;
  };
  constexpr std::size_t most_kept = 4;
  thread_local std::deque<Made> kept;
  const int blocks_per_unit = config->parallel.blocks_per_unit;
  const bool cuts_tokens = config->parallel.token_slices() > 1;
  const SentTiles sent = sends_fp8(config);
  const auto found = std::ranges::find_if(kept, [&](const Made& made) {
    return made.blocks_per_unit == blocks_per_unit && made.cuts_tokens == cuts_tokens && made.sent == sent &&
           made.model == config->model && made.lora == config->lora;
  });
  if (found != kept.end()) return found->architecture;
  if (kept.size() == most_kept) kept.pop_front();
  kept.push_back({config->model, config->lora, blocks_per_unit, cuts_tokens, sent,
                  std::make_shared<const Architecture>(make_architecture(config))});
  return kept.back().architecture;
}

}  // namespace sft::model
