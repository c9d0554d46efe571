// SPDX-License-Identifier: Apache-2.0
#pragma once
// The nodes of a run and the devices of its ranks, in words.

#include <string>

#include "sft/comm/session.hpp"
#include "sft/core/axis.hpp"
#include "sft/core/index.hpp"
#include "sft/device/device.hpp"
#include "sft/mesh/layout.hpp"

namespace sft::rank {

/// The node of every rank: equal numbers are one node. Collective over the world.
[[nodiscard]] IndexedVector<WorldRank, int> nodes_of_ranks(const comm::Session& session);
/// "2 nodes; between them: dp_replicate". Pure.
[[nodiscard]] std::string describe_nodes(const mesh::Layout& layout, const IndexedVector<WorldRank, int>& node_of_rank);
/// The processor or GPU of `device`, in words. Local.
[[nodiscard]] std::string describe_device(const device::Device& device);

}  // namespace sft::rank
