// SPDX-License-Identifier: Apache-2.0
#pragma once
// Words of commands that a person, a script or sft-run reads.

#include <string>

namespace sft {

/// The word as a shell reads it: in single quotes where it needs them.
[[nodiscard]] std::string shell_word(const std::string& word);

}  // namespace sft
