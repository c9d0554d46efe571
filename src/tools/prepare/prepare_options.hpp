// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a preparation is asked for: which options can be, and the files that its words name.

#include <cstdint>
#include <string>
#include <vector>

#include "sft/prepare/prepare.hpp"

namespace sft::prepare {

/// A configuration Error for options that cannot be, alone or together.
void check_options(const PrepareOptions& options);

/// `length` rounded up to a multiple of pad_to_multiple_of.
[[nodiscard]] std::int64_t padded_length(const PrepareOptions& options, std::int64_t length);

/// Files whose records share a weight.
struct InputGroup {
  std::vector<std::string> files;
};

/// The files that options.inputs name, in the order given, globs sorted, "-" as it is, in their groups. A data Error
/// names what matches nothing, is a folder, or is named twice.
[[nodiscard]] std::vector<InputGroup> find_inputs(const PrepareOptions& options);

/// A configuration Error for what can be read only once, as pipes and standard input can.
void require_files(const std::vector<InputGroup>& groups);

}  // namespace sft::prepare
