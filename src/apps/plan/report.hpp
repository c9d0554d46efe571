// SPDX-License-Identifier: Apache-2.0
#pragma once
// What sft-plan says of the plans that it found.

#include <optional>
#include <string>
#include <vector>

#include "sft/config/parse.hpp"
#include "sft/planner/search.hpp"
#include "sft/rank/save_time.hpp"

namespace sft::apps {

/// All that a search came to.
struct PlanReport {
  const planner::PlanTask& task;
  planner::SearchResult result;
  double search_s = 0;                                    ///< that it took
  std::optional<planner::Candidate> obvious = {};         ///< with its time where it fits
  std::optional<simulator::Hardware> smallest = {};       ///< on which anything fits
  std::int64_t longest_row = 0, largest_micro_batch = 0;  ///< with all else as in the best plan
  std::int64_t num_steps = 0;                             ///< of the run; 0: not known
  rank::SaveTime save = {};                               ///< of the best plan

  /// Seconds of a checkpoint of the best plan, and of reading it.
  [[nodiscard]] double save_s() const;
};

/// A table of the plans, and what else there is to say. `explained`: the plan to tell more of, from 1; 0: none.
[[nodiscard]] std::string describe(const PlanReport& report, int explained);
/// The same as one JSON object.
[[nodiscard]] std::string to_json(const PlanReport& report);

/// The keys that a plan sets otherwise than `task.base`.
[[nodiscard]] std::vector<config::Difference> keys_of(const planner::PlanTask& task,
                                                      const planner::Candidate& candidate);

}  // namespace sft::apps
