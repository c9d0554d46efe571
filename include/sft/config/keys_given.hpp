// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which keys were written at all, whatever their values.

#include <set>
#include <string>
#include <vector>

#include "sft/config/parse.hpp"

namespace sft::config {

/// The full names of the keys that sources give a value. Throws as parse_sources().
[[nodiscard]] std::set<std::string> keys_given(const std::vector<std::vector<PlacedOption>>& sources);

}  // namespace sft::config
