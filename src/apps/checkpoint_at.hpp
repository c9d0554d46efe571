// SPDX-License-Identifier: Apache-2.0
#pragma once
// From a folder that a user names to a checkpoint.

#include <string>

namespace sft::apps {

/// The checkpoint that `path` means: the folder itself, or of the output folder of a run the one saved last, which a
/// line on standard error names.
[[nodiscard]] std::string checkpoint_at(const std::string& path);

}  // namespace sft::apps
