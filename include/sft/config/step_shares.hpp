// SPDX-License-Identifier: Apache-2.0
#pragma once
// save_steps, eval_steps and logging_steps below 1, as transformers takes them: shares of all steps of a run. How many
// these are is known where its rows are; until then the shares are kept apart from the configuration, whose keys count
// steps.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sft/config/config.hpp"
#include "sft/config/parse.hpp"

namespace sft::config {

/// The shares that were given, each above 0 and below 1.
struct StepShares {
  std::optional<double> save_steps, eval_steps, logging_steps;

  [[nodiscard]] bool is_empty() const { return !save_steps && !eval_steps && !logging_steps; }
};

/// Takes the lines of .ini text and the options that give shares out of them; an option replaces the line of its key.
/// What is no share is left for parse(). Throws a configuration Error for text that is no .ini file. Pure.
[[nodiscard]] StepShares take_step_shares(std::string& ini_text, std::vector<Option>& overrides,
                                          const std::string& source);
/// The same for settings of several sources, of which later ones win. Pure.
[[nodiscard]] StepShares take_step_shares(std::vector<std::vector<PlacedOption>>& sources);

/// Sets the keys for a run of so many steps: shares are rounded up, as in transformers. Pure.
void apply_step_shares(const StepShares& shares, std::int64_t num_steps, Config& config);

/// The shares as lines of an .ini file. Pure.
[[nodiscard]] std::string to_ini(const StepShares& shares);

}  // namespace sft::config
