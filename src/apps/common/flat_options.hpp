// SPDX-License-Identifier: Apache-2.0
#pragma once
// Options of a command line that stand in blocks and files.

#include <vector>

#include "sft/config/options.hpp"

namespace sft::apps {

/// The options with what stands in blocks and files in their place (launch::lay_flat). Throws a configuration Error for
/// what cannot be obeyed of them, a data Error for a file that cannot be read.
[[nodiscard]] std::vector<config::Option> flat_options(const std::vector<config::Option>& options);

}  // namespace sft::apps
