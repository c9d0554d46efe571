// SPDX-License-Identifier: Apache-2.0
#include "sft/train/slowest_rank.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

namespace sft::train {

namespace {

constexpr double most_ratio = 1.2;
constexpr double least_excess_s = 0.02;  ///< a step: steps of milliseconds differ by chance
constexpr std::int64_t least_steps = 20;
constexpr int least_lines = 2;  // of the metrics: a single long stop is in one

std::string host_name() {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  return host.data();
}

}  // namespace

SlowestRank slowest_of(std::span<const double> times_s) {
  std::vector<double> sorted(times_s.begin(), times_s.end());
  std::ranges::sort(sorted);
  const std::size_t middle = sorted.size() / 2;
  const double median = sorted.size() % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
  const auto slowest = std::ranges::max_element(times_s);
  return {.rank = static_cast<int>(slowest - times_s.begin()),
          .ratio = median > 0 ? *slowest / median : 1.0,
          .excess_s = *slowest - median,
          .exposed_share = {}};
}

void SlowestRankWatch::add_step(double step_time_s, double waited_s) {
  if (!std::exchange(has_begun_, true)) return;
  compute_s_ += step_time_s - waited_s;
  waited_s_ += waited_s;
  ++num_steps_;
}

SlowestRankWatch::Finding SlowestRankWatch::close(const comm::Group& world, bool sees_waits) {
  const std::int64_t num_steps = std::exchange(num_steps_, 0);
  if (num_steps == 0 || world.size() == 1) return {};
  const double compute_s = std::exchange(compute_s_, 0.0) / static_cast<double>(num_steps);
  const double waited_s = std::exchange(waited_s_, 0.0) / static_cast<double>(num_steps);
  SlowestRank slowest = slowest_of(world.all_gather(std::span(&compute_s, 1)));
  std::array<double, 1> exposed{
      world.rank() == slowest.rank && compute_s + waited_s > 0 ? waited_s / (compute_s + waited_s) : 0.0};
  world.max(std::span<double>(exposed));
  if (sees_waits) slowest.exposed_share = exposed[0];
  const bool is_slow = slowest.ratio > most_ratio && slowest.excess_s > least_excess_s;
  if (!is_slow || slowest.rank != same_rank_) same_steps_ = same_lines_ = 0;
  if (is_slow) {
    same_steps_ += num_steps;
    ++same_lines_;
  }
  same_rank_ = is_slow ? slowest.rank : -1;
  if (has_warned_ || same_steps_ < least_steps || same_lines_ < least_lines) return {.slowest = slowest, .warning = ""};
  has_warned_ = true;
  const std::string host = world.deliver(host_name(), slowest.rank, 0);
  return {.slowest = slowest,
          .warning = fmt::format(
              "rank {} on {} computes {:.2f} times as long as the median rank (for {} steps and more, {:.2f} s a step, "
              "in which the others wait): look for other programs there, and compare it by `sft --check`",
              slowest.rank, host, slowest.ratio, least_steps, slowest.excess_s)};
}

}  // namespace sft::train
