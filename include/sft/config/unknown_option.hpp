// SPDX-License-Identifier: Apache-2.0
#pragma once
// Options that a tool does not have.

#include <string>
#include <vector>

namespace sft::config {

/// Throws the configuration Error for `--option` on the command line of `program`, whose options are `known` (without
/// dashes). It names the option that was probably meant where one is within a small edit distance; for sft-prepare it
/// also says what names of TRL, transformers and Accelerate mean there. Pure.
[[noreturn]] void refuse_unknown_option(const std::string& program, const std::string& option,
                                        const std::vector<std::string>& known);

}  // namespace sft::config
