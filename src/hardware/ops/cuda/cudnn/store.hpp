// SPDX-License-Identifier: Apache-2.0
#pragma once
// Compiled graphs of earlier runs, in files of ~/.cache/sft/attention (or of XDG_CACHE_HOME). What cannot be read or
// written is compiled again.

#include <cstdint>
#include <string>
#include <vector>

namespace sft::ops::cuda::cudnn {

/// Empty where the user has none.
[[nodiscard]] std::string folder_of_graphs();
/// Throws a configuration Error where no graph can be written there.
void require_store();

/// Empty where there is none.
[[nodiscard]] std::vector<std::uint8_t> read_graph(const std::string& name);
/// Processes of one machine may write the same graph at a time; readers see all of it or nothing.
void write_graph(const std::string& name, const std::vector<std::uint8_t>& bytes);

}  // namespace sft::ops::cuda::cudnn
