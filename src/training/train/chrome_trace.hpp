// SPDX-License-Identifier: Apache-2.0
#pragma once
// Timelines as text of the Trace Event Format (Google, "Trace Event Format", 2016), which Perfetto and chrome://tracing
// show: a process for each rank, a thread for the host and for each stream. Pure.

#include <cstdint>
#include <string>
#include <vector>

#include "sft/device/timeline.hpp"

namespace sft::train {

/// What comes before the events of the first rank; `description` tells what was traced.
[[nodiscard]] std::string chrome_trace_begin(const std::string& description);
/// The events of one rank, called `name`, with times from `origin_ns` on. Between two ranks comes a comma.
[[nodiscard]] std::string chrome_trace_events(int rank, const std::string& name,
                                              const std::vector<device::TimedRange>& ranges, std::int64_t origin_ns);
/// What comes behind those of the last one.
[[nodiscard]] std::string chrome_trace_end();

}  // namespace sft::train
