// SPDX-License-Identifier: Apache-2.0
#pragma once
// Numbers of a run as Prometheus reads them, from a file: its node_exporter collects those of a folder.

#include <span>
#include <string>

#include "sft/report/event_file.hpp"

namespace sft::report {

/// The numbers in Prometheus' text format 0.0.4, each a gauge named sft_TAG with the label run="RUN_ID"; a tag may have
/// letters, digits and _, and one that ends in _s is told as _seconds. `promtool check metrics` has nothing to object.
[[nodiscard]] std::string text_exposition(const std::string& run_id, std::span<const Scalar> scalars);

}  // namespace sft::report
