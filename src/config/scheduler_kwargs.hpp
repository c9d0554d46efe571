// SPDX-License-Identifier: Apache-2.0
#pragma once
// lr_scheduler_kwargs: text <-> SchedulerKwargs, and which schedule takes what.

#include <string>

#include "sft/config/config.hpp"

namespace sft::config {

/// Reads the JSON object; "", "none", "null" and {} mean that nothing is chosen, and so does a field that is null.
/// Numbers may be written as texts, as on TRL's command line. Throws std::invalid_argument that says what is wrong: no
/// JSON object, a field that no schedule has, another type, a value out of range.
[[nodiscard]] SchedulerKwargs parse_scheduler_kwargs(const std::string& text);

/// The inverse of parse_scheduler_kwargs; empty where nothing is chosen.
[[nodiscard]] std::string to_json(const SchedulerKwargs& kwargs);

/// Refuses a schedule with kwargs that it does not have, or that contradict the learning rate or one another, with
/// warm-up that it has not or that is given twice, or without the evaluations that it goes by: throws a configuration
/// Error.
void check_scheduler(const Config& config);

}  // namespace sft::config
