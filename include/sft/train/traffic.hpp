// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a rank sends in one optimizer step, over each axis of the mesh: by the code that trains, over nothing.

#include <cstdint>
#include <string>
#include <vector>

#include "sft/comm/traffic.hpp"
#include "sft/config/config.hpp"
#include "sft/mesh/place.hpp"
#include "sft/train/machine.hpp"

namespace sft::train {

/// By group (mesh::Groups), for rank place.rank() of a validated configuration whose rows are all full: one document of
/// `max_length` tokens each. A step on shorter ones sends less over sp and tp. Pure.
[[nodiscard]] std::vector<comm::SentBytes> plan_traffic(const config::Config& config, std::int64_t max_length,
                                                        const mesh::Place& place, const Machine& machine);

/// "fsdp 9.4 MiB, sp 3.0 MiB"; "nothing".
[[nodiscard]] std::string describe_traffic(const std::vector<comm::SentBytes>& sent);

}  // namespace sft::train
