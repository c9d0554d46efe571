// SPDX-License-Identifier: Apache-2.0
#pragma once
// sft-inspect on packed data: what a data set holds, and whether it still is what was written.

#include <optional>
#include <string>
#include <vector>

namespace sft::apps {

/// The packed shard files that `path` means, as a list for data::PackedDataset: itself when it is a shard file or a
/// glob of them, those of a folder that sft-prepare wrote. None: it is something else.
[[nodiscard]] std::optional<std::vector<std::string>> packed_files_at(const std::string& path);

/// Prints a summary of the data set. `verify`: reads every row first, and refuses a data set whose rows, counts or
/// content hashes differ from what its files say.
void inspect_data(const std::vector<std::string>& files, bool verify, bool json);

}  // namespace sft::apps
