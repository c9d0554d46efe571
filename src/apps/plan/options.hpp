// SPDX-License-Identifier: Apache-2.0
#pragma once
// The command line of sft-plan.

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "sft/cli/manual.hpp"
#include "sft/config/options.hpp"

namespace sft::apps {

struct PlanOptions {
  std::string model;               ///< an .ini file or a model folder
  bool is_model_name = false;      ///< it is what model.model_name_or_path may be, and no .ini file
  std::string machine;             ///< as machine_named takes it, or as ranks_of_here does
  std::string machine_file;        ///< that keeps what is measured of this machine; empty: none
  std::set<std::string> searched;  ///< as PlanTask::searched
  std::int64_t max_length = 0;     ///< tokens of a row; 0: that of the data
  std::int64_t rows = 64;          ///< of a step, all ranks together
  std::int64_t num_rows = 0;       ///< of the data; 0: as many as the data have
  bool json = false;
  int explained = 0;                      ///< plan to tell more of, from 1; 0: none
  std::string applied_to;                 ///< .ini file that the best plan, or the explained one, is written to
  std::vector<config::Option> overrides;  ///< keys, which the search leaves as they are given
};

/// Nothing when help or the version was asked for and printed. Throws a configuration Error.
[[nodiscard]] std::optional<PlanOptions> read_plan_options(const std::vector<std::string>& arguments);
[[nodiscard]] cli::Manual plan_manual();

}  // namespace sft::apps
