// SPDX-License-Identifier: Apache-2.0
#pragma once
// What one rank alone can work out, shared between the ranks of a test.

#include <functional>
#include <vector>

#include "sft/comm/group.hpp"

namespace sft::test {

/// The numbers of every one of `works`, in their order: each is done by one rank, the next one by the next rank, and
/// its numbers are given to all. All ranks have the same works, which make no collective call. Collective over `world`.
[[nodiscard]] std::vector<std::vector<double>> by_turns(const comm::Group& world,
                                                        const std::vector<std::function<std::vector<double>()>>& works);

}  // namespace sft::test
