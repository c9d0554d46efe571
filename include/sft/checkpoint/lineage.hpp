// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which run wrote a checkpoint. A folder may hold checkpoints of several runs: of one that started anew in it, or went
// on from an earlier checkpoint on a branch of its own. Pure, but for the random name.

#include <cstdint>
#include <string>
#include <vector>

namespace sft::checkpoint {

/// A run that another one branched off from.
struct Ancestor {
  std::string run_id;
  std::int64_t last_step = 0;  ///< of the checkpoint that the branch goes on from
};

/// A run and those that it comes from. A run that goes on from its newest checkpoint is still the same run.
struct Lineage {
  std::string run_id;               ///< 32 hexadecimal digits; empty: not known (sft 0.1.0 stored none)
  std::vector<Ancestor> ancestors;  ///< oldest first
};

/// The lineage of a run that starts anew.
[[nodiscard]] Lineage new_lineage();
/// The lineage of a run that branches off from a checkpoint of `parent` at `step`.
[[nodiscard]] Lineage branch_off(const Lineage& parent, std::int64_t step);
/// Whether a checkpoint that the run `run_id` wrote at `step` belongs to `lineage`: to its run or to an ancestor.
[[nodiscard]] bool contains(const Lineage& lineage, const std::string& run_id, std::int64_t step);

/// One line an ancestor, "RUN_ID STEP".
[[nodiscard]] std::string to_text(const std::vector<Ancestor>& ancestors);
/// Reads to_text(); a data Error names `source`.
[[nodiscard]] std::vector<Ancestor> parse_ancestors(const std::string& text, const std::string& source);

}  // namespace sft::checkpoint
