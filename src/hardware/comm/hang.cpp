// SPDX-License-Identifier: Apache-2.0
#include "hang.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace sft::comm {

namespace {

constexpr std::size_t max_named = 4;  ///< ranks that a line tells of

bool is_behind(const StandingRank& rank, const StandingRank& other) {
  if (!rank.is_in(ActivityKind::waits) || !other.is_in(ActivityKind::waits)) return false;
  const ActivityText& mine = rank.activities.back();
  const ActivityText& theirs = other.activities.back();
  return mine.text == theirs.text && mine.number < theirs.number;
}

const char* words_of(StandingRank::Condition condition) {
  switch (condition) {
    case StandingRank::Condition::runs:
      return "";
    case StandingRank::Condition::stopped:
      return "stopped by a signal, ";
    case StandingRank::Condition::blocked:
      return "held in a call of the system that nothing interrupts (a disk, a file system, a driver), ";
    case StandingRank::Condition::ended:
      return "its process has ended, ";
    case StandingRank::Condition::silent:
      return "without a sign of life, ";
    case StandingRank::Condition::gone:
      break;  // nobody knows what it is in
  }
  return "";
}

std::string name_of(const StandingRank& rank) { return fmt::format("rank {} on {}", rank.rank, rank.host); }

std::string describe(const StandingRank& rank) {
  if (rank.condition == StandingRank::Condition::gone) {
    return fmt::format(
        "{} stands still, with its whole node, which does not answer (it is down, cut off from the others, or does not "
        "see output_dir), for {:.0f} s",
        name_of(rank), rank.stood_s);
  }
  return fmt::format("{} stands still, {}in {}, for {:.0f} s", name_of(rank), words_of(rank.condition), rank.place(),
                     rank.stood_s);
}

/// As many of `parts` as a line takes.
std::string join(std::vector<std::string> parts) {
  const std::size_t num_more = parts.size() - std::min(parts.size(), max_named);
  parts.resize(parts.size() - num_more);
  return fmt::format("{}{}", fmt::join(parts, "; "), num_more > 0 ? fmt::format("; and {} more", num_more) : "");
}

}  // namespace

std::string StandingRank::place() const {
  if (activities.empty()) return "computing";
  std::vector<std::string> parts;
  for (const ActivityText& activity : activities) {
    parts.push_back(activity.number > 0 ? fmt::format("{} (call {})", activity.text, activity.number) : activity.text);
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::vector<std::size_t> find_culprits(const std::vector<StandingRank>& ranks) {
  const auto all = [&](const auto& is_meant) {
    std::vector<std::size_t> found;
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      if (is_meant(ranks[i])) found.push_back(i);
    }
    return found;
  };
  std::vector<std::size_t> found = all([](const StandingRank& rank) { return rank.cannot_go_on(); });
  const auto waits_for_gpu = [](const StandingRank& rank) { return rank.is_in(ActivityKind::device); };
  if (found.empty()) {
    found = all([&](const StandingRank& rank) { return !rank.is_in(ActivityKind::waits) && !waits_for_gpu(rank); });
  }
  if (found.empty() && !std::ranges::all_of(ranks, waits_for_gpu)) found = all(waits_for_gpu);
  if (found.empty()) {
    found = all([&](const StandingRank& rank) {
      return std::ranges::any_of(ranks, [&](const StandingRank& other) { return is_behind(rank, other); });
    });
  }
  return found;
}

bool may_be_slow(const std::vector<StandingRank>& ranks, const std::vector<std::size_t>& culprits) {
  const auto saves = [](const ActivityText& activity) { return activity.kind == ActivityKind::saves; };
  return !culprits.empty() && std::ranges::all_of(culprits, [&](std::size_t i) {
    return !ranks[i].cannot_go_on() && std::ranges::any_of(ranks[i].activities, saves);
  });
}

Error hang_error(const std::vector<StandingRank>& ranks, const std::vector<std::size_t>& culprits,
                 const std::string& calls) {
  std::vector<std::string> named, waiting;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (std::ranges::find(culprits, i) != culprits.end()) {
      named.push_back(describe(ranks[i]));
    } else {
      waiting.push_back(fmt::format("rank {} is in {}", ranks[i].rank, ranks[i].place()));
    }
  }
  std::string why = join(waiting);
  if (!calls.empty()) why += fmt::format("{}{}", why.empty() ? "" : "; ", calls);
  if (!named.empty()) {
    return {ExitStatus::hang, join(named), why,
            "look at that host and for earlier messages, and start again with checkpoint.resume_from_checkpoint = "
            "auto; [device] comm_timeout_s says how long is waited"};
  }
  return {ExitStatus::hang, fmt::format("the ranks on {} stand still, and none of them stands out", ranks.front().host),
          why,
          "look for a line of another node, for one that is down, and for earlier messages, and start again with "
          "checkpoint.resume_from_checkpoint = auto; [device] comm_timeout_s says how long is waited"};
}

}  // namespace sft::comm
