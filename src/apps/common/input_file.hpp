// SPDX-License-Identifier: Apache-2.0
#pragma once
// The .ini file of a command line, and the ranks that its mesh asks for.

#include <string>

#include "sft/config/config.hpp"

namespace sft::apps {

/// The text of the .ini file at `path`; nothing for an empty path. A file that cannot be used as one is a configuration
/// Error. Not collective.
[[nodiscard]] std::string read_input_file(const std::string& path);

/// The ranks of the mesh, the least where dp_shard_size is auto; at most the largest int.
[[nodiscard]] int num_ranks_of(const config::Parallel& parallel);

}  // namespace sft::apps
