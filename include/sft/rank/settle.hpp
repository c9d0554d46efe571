// SPDX-License-Identifier: Apache-2.0
#pragma once
// The values of all keys that are auto and depend on memory or machine, in one order for runs and dry runs.

#include <functional>
#include <string>

#include "sft/config/valid_config.hpp"
#include "sft/device/ledger.hpp"
#include "sft/rank/async_save.hpp"
#include "sft/rank/pieces.hpp"
#include "sft/rank/sp_method.hpp"

namespace sft::rank {

/// Facts that the choices depend on, apart from the configuration.
struct SettleFacts {
  SpFacts sp;
  Fits fits;
  /// Settles [device] attention on the GPUs that are there; none: it stays, since a plan has no GPU to try it on.
  std::function<config::ValidConfig(const config::ValidConfig& config)> settle_attention = {};
  /// choose_async_save() on the nodes that are there; none: assume_async_save().
  std::function<ChosenSave(const config::ValidConfig& config)> choose_save = {};
};

/// A settled configuration. The reasons are texts for people, empty where there was nothing to choose. `planned` is
/// this rank's memory, as choose_save planned it; empty without choose_save.
struct Settled {
  config::ValidConfig config;
  std::string why_sp = {}, why_pieces = {}, why_save = {};
  device::Ledger planned = {};
};

/// Sets, each with what stands above it:
///
///     sp_method, ulysses_size                   resolve_sp_method
///     [device] attention                        SettleFacts::settle_attention
///     mlp_tile_tokens, attention_head_groups    choose_pieces
///     checkpoint.async                          SettleFacts::choose_save
///
/// Memory without choose_save is planned for what assume_async_save() assumes. Collective where a fact is.
[[nodiscard]] Settled settle(const config::ValidConfig& config, const SettleFacts& facts);

}  // namespace sft::rank
