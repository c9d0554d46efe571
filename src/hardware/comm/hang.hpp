// SPDX-License-Identifier: Apache-2.0
#pragma once
// Whom a run that stands still waits for. Pure: from what the ranks of a node have noted, and the system says of them.

#include <cstddef>
#include <string>
#include <vector>

#include "sft/core/activity.hpp"
#include "sft/core/error.hpp"

namespace sft::comm {

/// A rank that stands still, as seen by another one.
struct StandingRank {
  enum class Condition {
    runs,
    stopped,  ///< by a signal
    blocked,  ///< in a call that nothing interrupts
    ended,
    silent,  ///< its watching thread shows no sign of life either, and the system does not say why
    gone,    ///< with its whole node, which tells nothing: this is the first of the node's ranks
  };

  int rank = 0;  ///< of the world
  std::string host;
  Condition condition = Condition::runs;
  std::vector<ActivityText> activities;  ///< the outermost first; none: it computes
  double stood_s = 0.0;

  /// Whether what it is in, innermost, is of this kind.
  [[nodiscard]] bool is_in(ActivityKind kind) const { return !activities.empty() && activities.back().kind == kind; }
  [[nodiscard]] bool cannot_go_on() const { return condition != Condition::runs && condition != Condition::blocked; }
  /// "saving, agree over world (call 17)"
  [[nodiscard]] std::string place() const;
};

/// Those of `ranks` that the others wait for: ranks that cannot go on; where there are none, those that wait for
/// nobody; else those that wait for their GPUs, where not all do; else those that wait in an earlier call of the same
/// group and name than another rank. Indices; empty where none stands out.
[[nodiscard]] std::vector<std::size_t> find_culprits(const std::vector<StandingRank>& ranks);

/// Whether what stands still may just take long: all `culprits` are alive and save, which may end in an fsync of
/// minutes.
[[nodiscard]] bool may_be_slow(const std::vector<StandingRank>& ranks, const std::vector<std::size_t>& culprits);

/// The line that ends the run, with ExitStatus::hang. `calls`: what is under way on this rank's GPU; may be
/// empty.
[[nodiscard]] Error hang_error(const std::vector<StandingRank>& ranks, const std::vector<std::size_t>& culprits,
                               const std::string& calls);

}  // namespace sft::comm
