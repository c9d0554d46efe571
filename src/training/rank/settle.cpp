// SPDX-License-Identifier: Apache-2.0
#include "sft/rank/settle.hpp"

#include <utility>

namespace sft::rank {

Settled settle(const config::ValidConfig& config, const SettleFacts& facts) {
  auto [with_sp, why_sp] =
      resolve_sp_method(facts.choose_save ? config : assume_async_save(config), facts.sp, facts.fits);
  if (facts.settle_attention) with_sp = facts.settle_attention(with_sp);
  auto [in_pieces, why_pieces] = choose_pieces(with_sp, facts.fits);
  Settled settled{.config = std::move(in_pieces), .why_sp = std::move(why_sp), .why_pieces = std::move(why_pieces)};
  if (!facts.choose_save) return settled;
  ChosenSave chosen = facts.choose_save(settled.config);
  settled.config = std::move(chosen.config);
  settled.why_save = std::move(chosen.why);
  settled.planned = std::move(chosen.planned);
  return settled;
}

}  // namespace sft::rank
