// SPDX-License-Identifier: Apache-2.0
#pragma once
// The last file of a checkpoint.

#include <string>

#include "file_map.hpp"
#include "sft/checkpoint/checkpoint.hpp"
#include "sft/config/config.hpp"

namespace sft::checkpoint {

/// Writes checkpoint.h5 into a folder whose shard files are there, sealed and synced, and tensors.h5 where that takes
/// only a moment. Returns the date that it writes. Not collective.
std::string write_map(const std::string& folder, const config::Config& config, const std::string& tokenizer,
                      const Position& position, const FileMap& map);

}  // namespace sft::checkpoint
