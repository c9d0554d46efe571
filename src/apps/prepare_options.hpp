// SPDX-License-Identifier: Apache-2.0
#pragma once
// The command line of sft-prepare.

#include <optional>
#include <string>
#include <vector>

#include "sft/config/manual.hpp"
#include "sft/data/prepare.hpp"

namespace sft::apps {

/// Nothing when help or the version was asked for and printed. Throws a configuration Error.
[[nodiscard]] std::optional<data::PrepareOptions> read_prepare_options(const std::vector<std::string>& arguments);

[[nodiscard]] config::Manual prepare_manual();

}  // namespace sft::apps
