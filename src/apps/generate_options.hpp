// SPDX-License-Identifier: Apache-2.0
#pragma once
// The command line of sft-generate.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sft/config/manual.hpp"

namespace sft::apps {

struct GenerateOptions {
  std::string checkpoint;  ///< as given: a checkpoint, or the output folder of a run
  std::vector<std::string> prompts;
  std::int64_t max_new_tokens = 128;
  bool chat = false;
};

/// Nothing when help or the version was asked for and printed. Throws a configuration Error.
[[nodiscard]] std::optional<GenerateOptions> read_generate_options(const std::vector<std::string>& arguments);

[[nodiscard]] config::Manual generate_manual();

}  // namespace sft::apps
