// SPDX-License-Identifier: Apache-2.0
#pragma once
// The order in which the checkpoints of a folder were saved. It is that of steps only while a run goes straight on: one
// that begins again at an earlier step leaves later checkpoints of an abandoned branch behind.

#include <cstdint>
#include <string>

#include "sft/checkpoint/lineage.hpp"

namespace sft::checkpoint {

/// Removes complete checkpoints beside `folder` that are on the way of `lineage`, all but the `limit` of the highest
/// steps, `folder` among them; 0 keeps all. One named `best` stays, too, and is one of the `limit` unless that is 1.
/// Those of other runs stay, and those whose checkpoint.h5 does not say whose they are.
void prune(const std::string& folder, const Lineage& lineage, std::int64_t limit, const std::string& best = "");

}  // namespace sft::checkpoint
