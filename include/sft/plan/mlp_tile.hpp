// SPDX-License-Identifier: Apache-2.0
#pragma once
// What mlp_tile_tokens = auto takes: tiles where the memory asks for them.

#include <cstdint>
#include <functional>
#include <string>

#include "sft/config/valid_config.hpp"

namespace sft::plan {

/// Tokens of a tile of auto: enough that products take no longer in tiles.
inline constexpr std::int64_t auto_mlp_tile_tokens = 8192;

/// A configuration whose mlp_tile_tokens is not auto, and why it has tiles, for people; empty where it was given or has
/// none.
struct ChosenTile {
  config::ValidConfig config;
  std::string why;
};

/// Whether the memory suffices for a run. Collective or not.
using Fits = std::function<bool(const config::ValidConfig& config)>;

/// Sets mlp_tile_tokens where it is auto: auto_mlp_tile_tokens where the run fits with them and does not without, else
/// 0. Asks `fits` twice at most, and on all ranks alike.
[[nodiscard]] ChosenTile choose_mlp_tile(const config::ValidConfig& config, const Fits& fits);

}  // namespace sft::plan
