// SPDX-License-Identifier: Apache-2.0
#pragma once
// The whole tensors of checkpoint.h5: virtual datasets over the shard files of all ranks.

#include <string>
#include <vector>

#include "sft/checkpoint/state.hpp"

namespace sft::checkpoint {

/// Adds a virtual dataset /ENTRY/PARAMETER to the closed `index_file` for every tensor of the entries, over the shard
/// files that the ranks of the first replica wrote beside it. The entries are those of any rank of the mesh.
void write_index_tensors(const std::string& index_file, const std::vector<Entry>& entries);

}  // namespace sft::checkpoint
