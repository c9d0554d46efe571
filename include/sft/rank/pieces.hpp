// SPDX-License-Identifier: Apache-2.0
#pragma once
// What mlp_tile_tokens = auto and attention_head_groups = auto take: MLPs in tiles of tokens, and attention in groups
// of heads, where the memory asks for them.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "sft/config/valid_config.hpp"

namespace sft::rank {

/// Tokens of a tile of auto: enough that products take no longer in tiles.
inline constexpr std::int64_t auto_mlp_tile_tokens = 8192;

/// A configuration in which neither key is auto, and why there are tiles or groups that were not asked for, for people;
/// else empty.
struct ChosenPieces {
  config::ValidConfig config;
  std::string why;
};

/// Whether the memory suffices for a run. Collective or not.
using Fits = std::function<bool(const config::ValidConfig& config)>;

/// Sets what is auto: neither tiles nor groups where the run fits without; else auto_mlp_tile_tokens where it fits with
/// them; else each key/value head alone, too, or as few as may be (config::most_head_groups), where it fits so; else
/// neither. Asks `fits` three times at most, and on all ranks alike.
[[nodiscard]] ChosenPieces choose_pieces(const config::ValidConfig& config, const Fits& fits);

/// The same of a run that may not fit at all: nothing where it fits neither whole nor in pieces. Asks `fits` at least
/// once.
[[nodiscard]] std::optional<ChosenPieces> fit_in_pieces(const config::ValidConfig& config, const Fits& fits);

}  // namespace sft::rank
