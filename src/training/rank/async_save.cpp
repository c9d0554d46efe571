// SPDX-License-Identifier: Apache-2.0
#include "sft/rank/async_save.hpp"

#include <fmt/core.h>

#include <array>
#include <cstdint>
#include <span>

#include "sft/core/cast.hpp"
#include "sft/core/error.hpp"
#include "sft/core/format.hpp"

namespace sft::rank {

namespace {

using device::Label;

config::ValidConfig with_async(const config::ValidConfig& config, bool is_async) {
  return config.with([&](config::Config& changed) { changed.checkpoint.async = is_async; });
}

/// What the ranks of this node need, and how much of it is copies.
struct NodeNeed {
  std::size_t all_bytes, copies_bytes;
};

NodeNeed sum_over_node(const device::Ledger& planned, device::Kind kind, const comm::Group& node) {
  std::array<std::int64_t, 2> sums{checked_cast<std::int64_t>(planned.node_bytes(kind)),
                                   checked_cast<std::int64_t>(planned.bytes(Label::snapshot))};
  node.sum(std::span<std::int64_t>(sums));
  return {checked_cast<std::size_t>(sums[0]), checked_cast<std::size_t>(sums[1])};
}

/// By how much the node that lacks most lacks memory. Collective over `world`.
std::size_t most_lacking(std::size_t needed_bytes, std::optional<std::size_t> node_bytes, const comm::Group& world) {
  const bool fits = !node_bytes || needed_bytes <= *node_bytes;
  std::array<std::int64_t, 1> lacking{fits ? 0 : checked_cast<std::int64_t>(needed_bytes - *node_bytes)};
  world.max(std::span<std::int64_t>(lacking));
  return checked_cast<std::size_t>(lacking[0]);
}

/// Refuses copies for which the memory is not there, where it is for all else. Collective over `world`.
void require_room(const NodeNeed& need, std::optional<std::size_t> node_bytes, const comm::Session& session) {
  const comm::Group& world = session.world();
  if (most_lacking(need.all_bytes, node_bytes, world) == 0) return;
  if (most_lacking(need.all_bytes - need.copies_bytes, node_bytes, world) > 0) return;
  world.agree([&] {
    if (!node_bytes || need.all_bytes <= *node_bytes) return;
    throw_config_error(
        fmt::format("`checkpoint.async = true` does not fit in memory: {} on this node need{} {}, {} of it for copies",
                    plural(session.node().size(), "rank"), session.node().size() == 1 ? "s" : "",
                    format_bytes(need.all_bytes), format_bytes(need.copies_bytes)),
        fmt::format("it has {}, its RAM or the limit of its control group", format_bytes(*node_bytes)),
        "set checkpoint.async = false, so that training waits for each save, or use more nodes");
  });
}

}  // namespace

ChosenSave choose_async_save(const config::ValidConfig& config, const PlanLedger& plan_ledger, device::Kind kind,
                             std::optional<std::size_t> node_bytes, const comm::Session& session) {
  ChosenSave chosen{assume_async_save(config), "", {}};
  session.world().agree([&] { chosen.planned = plan_ledger(chosen.config); });
  if (!chosen.config->checkpoint.has_snapshot()) return chosen;
  const NodeNeed need = sum_over_node(chosen.planned, kind, session.node());
  if (config->checkpoint.async) {
    require_room(need, node_bytes, session);
    return chosen;
  }
  const std::size_t lacking_bytes = most_lacking(need.all_bytes, node_bytes, session.world());
  if (lacking_bytes == 0) return chosen;
  chosen.config = with_async(config, false);
  chosen.why = fmt::format("async = auto: a node lacks {} for copies", format_bytes(lacking_bytes));
  session.world().agree([&] { chosen.planned = plan_ledger(chosen.config); });
  return chosen;
}

config::ValidConfig assume_async_save(const config::ValidConfig& config) {
  if (config->checkpoint.async) return config;
  return with_async(config, config->checkpoint.has_saves_between());
}

}  // namespace sft::rank
