// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a rank sends in one optimizer step, over each axis of the mesh: by the code that trains, over nothing.

#include <cstdint>
#include <vector>

#include "sft/comm/traffic.hpp"
#include "sft/config/valid_config.hpp"
#include "sft/mesh/place.hpp"
#include "sft/rank/machine.hpp"
#include "sft/rows/micro_batch_limits.hpp"

namespace sft::rank {

/// By group (mesh::Groups), for rank place.rank() whose micro-batches are all as large as
/// `limits` allow, in documents of limits.document_tokens. A step on less sends less over sp and tp. Pure.
[[nodiscard]] std::vector<comm::SentBytes> plan_traffic(const config::ValidConfig& config,
                                                        const rows::MicroBatchLimits& limits, const mesh::Place& place,
                                                        const Machine& machine);

/// What rank place.rank() sends in a step whose micro-batches all consist of documents of these lengths, by group.
/// Pure.
[[nodiscard]] std::vector<comm::SentBytes> plan_traffic(const config::ValidConfig& config,
                                                        const std::vector<std::int32_t>& documents,
                                                        const mesh::Place& place, const Machine& machine);

}  // namespace sft::rank
