// SPDX-License-Identifier: Apache-2.0
#include "sft/train/health.hpp"

#include <fmt/format.h>

#include "sft/core/format.hpp"

namespace sft::train {

namespace {

/// "rank 3 fullest, 421.0 MiB; its node 13 % of 23.40 GiB"
std::string describe(const MemoryPeaks& peaks) {
  if (!peaks.fullest) return fmt::format("rank {} fullest, {}", peaks.max_rank, format_bytes(peaks.max_bytes));
  const MemoryPeaks::Fullest& fullest = *peaks.fullest;
  return fmt::format("rank {} fullest, {}; its {} {:.0f} % of {}", fullest.rank, format_bytes(fullest.peak_bytes),
                     fullest.is_node ? "node" : "GPU",
                     100.0 * static_cast<double>(fullest.used_bytes) / static_cast<double>(fullest.limit_bytes),
                     format_bytes(fullest.limit_bytes));
}

}  // namespace

std::vector<std::string> describe_health(const StepMetrics& metrics, std::optional<double> job_left_s) {
  std::vector<std::string> lines;
  lines.push_back("memory: " + describe(metrics.peak_memory));
  std::string time;
  const auto add = [&](const std::string& text) { time += (time.empty() ? "time: " : "; ") + text; };
  if (metrics.slowest) {
    add(fmt::format("rank {} slowest, {:.2f}x median", metrics.slowest->rank, metrics.slowest->ratio));
    if (const auto share = metrics.slowest->exposed_share) add(fmt::format("communication {:.0f} %", 100.0 * *share));
  }
  if (job_left_s) add("job ends in " + format_duration(*job_left_s));
  if (!time.empty()) lines.push_back(time);
  return lines;
}

}  // namespace sft::train
