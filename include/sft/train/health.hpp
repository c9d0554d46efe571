// SPDX-License-Identifier: Apache-2.0
#pragma once
// How the ranks of a run do, in two lines for the person who watches it.

#include <optional>
#include <string>
#include <vector>

#include "sft/train/metrics.hpp"

namespace sft::train {

/// The fullest rank and the memory there; the slowest rank, communication that nothing hides, and the time left of the
/// job, `job_left_s`, where there is one. Of a logged step: lines of 80 columns or less, without those that would be
/// empty. Pure.
[[nodiscard]] std::vector<std::string> describe_health(const StepMetrics& metrics, std::optional<double> job_left_s);

}  // namespace sft::train
