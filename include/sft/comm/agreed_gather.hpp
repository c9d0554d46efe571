// SPDX-License-Identifier: Apache-2.0
#pragma once
// Work that may fail on one rank and whose outcome every rank needs: one collective in place of an agree() and a
// gather.

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "sft/comm/group.hpp"

namespace sft::comm {

/// Runs `work` on every rank of `group` as Group::agree() does, with the same rules and the same errors, and returns
/// what it returned on each, in rank order: texts of `max_length` bytes at most, the same number on all ranks; a longer
/// one is an error of its rank. Collective over the group: one call, and those of agree() behind it where a rank
/// failed.
[[nodiscard]] std::vector<std::string> agree_and_gather(const Group& group, std::size_t max_length,
                                                        const std::function<std::string()>& work);

}  // namespace sft::comm
