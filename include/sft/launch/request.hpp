// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a person asks of sft-launch, sorted by who has to know it: the launcher, sft-prepare or sft.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sft/config/parse.hpp"
#include "sft/launch/datasets.hpp"

namespace sft::launch {

struct Request {
  std::string model, model_revision = "main";
  std::vector<Dataset> train, eval;  ///< eval: named for evaluation alone
  std::string test_split = "test";   ///< of the data sets in `train`, for evaluation
  std::string prepared_dir;          ///< where prepared rows are kept; empty: the cache
  std::optional<int> num_processes, num_machines;
  bool is_single_process = false;                  ///< whatever num_processes says (distributed_type: "NO")
  std::optional<int> threads_per_process;          ///< OMP_NUM_THREADS
  std::string hostfile;                            ///< lines `HOST slots=N`, as DeepSpeed and Open MPI read them
  std::optional<int> train_batch_size;             ///< DeepSpeed's: rows of a step, which the sizes have to give
  std::map<std::string, std::string> preparation;  ///< options of sft-prepare
  std::vector<std::vector<config::PlacedOption>> training;  ///< settings of sft, by source; later ones win
  std::vector<std::string> refused;                         ///< finished messages
};

/// Sorts the settings of one source (a file, or the command line) into the request; those of earlier sources are
/// replaced. `options_of_prepare`: names of all options of sft-prepare. What cannot be obeyed goes to `refused`, or is
/// left to config::parse_sources.
void take(Request& request, const std::vector<config::PlacedOption>& source,
          const std::vector<std::string>& options_of_prepare);

/// The settings of a file for a run whose `num_ranks` ranks (0: not known) somebody else has started: without those
/// that say how processes start. Throws a configuration Error where the file asks for another number.
[[nodiscard]] std::vector<config::PlacedOption> settings_of_run(const std::vector<config::PlacedOption>& settings,
                                                                int num_ranks);

}  // namespace sft::launch
