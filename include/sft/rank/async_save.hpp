// SPDX-License-Identifier: Apache-2.0
#pragma once
// Whether training goes on while a checkpoint is written: where the nodes have the memory for a copy.

#include <cstddef>
#include <functional>
#include <optional>
#include <string>

#include "sft/comm/session.hpp"
#include "sft/config/valid_config.hpp"
#include "sft/device/kind.hpp"
#include "sft/device/ledger.hpp"

namespace sft::rank {

/// A configuration whose checkpoint.async is not auto, why it has this one, for people (empty where there was nothing
/// to choose), and what this rank then uses.
struct ChosenSave {
  config::ValidConfig config;
  std::string why;
  device::Ledger planned;
};

/// The ledger of this rank as it would be with a configuration (plan_ledger). Local; may fail on one rank.
using PlanLedger = std::function<device::Ledger(const config::ValidConfig& config)>;

/// Sets checkpoint.async where it is auto: true where there are saves before the last step and every node has the
/// memory of its ranks, their copies included. Refuses async = true where the copies alone are too much for a node.
/// `node_bytes`: of this node; none when the system does not tell, which counts as enough. Collective over the world
/// and each node.
[[nodiscard]] ChosenSave choose_async_save(const config::ValidConfig& config, const PlanLedger& plan_ledger,
                                           device::Kind kind, std::optional<std::size_t> node_bytes,
                                           const comm::Session& session);

/// `config` with checkpoint.async chosen as if every node had room for it: for a plan of nodes that are not there,
/// whose maker has to know whether there is room.
[[nodiscard]] config::ValidConfig assume_async_save(const config::ValidConfig& config);

}  // namespace sft::rank
