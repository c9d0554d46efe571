// SPDX-License-Identifier: Apache-2.0
#pragma once
// The command line of sft-prepare.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "record_inputs.hpp"
#include "sft/cli/manual.hpp"
#include "sft/prepare/prepare.hpp"

namespace sft::apps {

/// What a user asked for.
struct PrepareCommand {
  prepare::PrepareOptions options;  ///< but for its inputs
  RecordWords records;
  std::string model,
      model_revision;  ///< whose tokenizer is to be taken: a folder, or a name in the hub cache; or empty
  std::int64_t num_preview_rows = 0;
  bool shows_statistics = false;
  bool is_json = false;
};

/// Nothing when help or the version was asked for and printed. Throws a configuration Error.
[[nodiscard]] std::optional<PrepareCommand> read_prepare_options(const std::vector<std::string>& arguments);

[[nodiscard]] cli::Manual prepare_manual();

}  // namespace sft::apps
