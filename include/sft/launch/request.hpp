// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a person asks of sft-launch, sorted by who has to know it: the launcher, sft-prepare or sft.

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "sft/config/parse.hpp"
#include "sft/launch/datasets.hpp"

namespace sft::launch {

/// What is to be sent to the hub, by the names of transformers without `hub_`.
struct HubUpload {
  bool is_wanted = false;                ///< push_to_hub
  std::string model_id;                  ///< [OWNER/]NAME; empty: the name of the output folder
  std::string revision;                  ///< the branch; empty: main
  std::string strategy = "every_save";   ///< end, every_save, checkpoint or all_checkpoints
  std::optional<bool> has_private_repo;  ///< of a repository that is made; none: as its owner has it
  std::string token;                     ///< empty: that of the user's own log-in
};

struct Request {
  std::string model, model_revision = "main";
  std::vector<Dataset> train, eval;  ///< eval: named for evaluation alone
  std::optional<std::string>
      test_split;  ///< of the data sets in `train`, for evaluation; none: `test`, if there is one
  std::optional<std::int64_t> max_samples;  ///< of each data set its first records, at most so many
  std::string known_pad_token;              ///< fills rows where the vocabulary has it
  std::string prepared_dir;                 ///< where prepared rows are kept; empty: the cache
  std::optional<int> num_processes, num_machines;
  std::optional<int> max_restarts;         ///< after a failure that another start can cure; none: 0
  bool is_single_process = false;          ///< whatever num_processes says (distributed_type: "NO")
  std::optional<int> threads_per_process;  ///< OMP_NUM_THREADS
  std::string hostfile;                    ///< lines `HOST slots=N`, as DeepSpeed and Open MPI read them
  std::string launcher;  ///< the command that starts ranks at this site, with their number; empty: it is found
  HubUpload hub;
  std::optional<bool> eval_packing;                ///< of rows to evaluate on; none: as those of training
  std::optional<int> train_batch_size;             ///< DeepSpeed's: rows of a step, which the sizes have to give
  std::map<std::string, std::string> preparation;  ///< options of sft-prepare
  std::vector<std::vector<config::PlacedOption>> training;  ///< settings of sft, by source; later ones win
  std::set<std::string> automatic;                          ///< sizes whose value is auto, by the names of their keys
  std::vector<std::pair<std::string, std::string>> environment;  ///< variables that are set for what is started
  std::vector<config::PlacedOption> passed;                      ///< options that change no rows
  std::vector<std::string> notes;                                ///< what becomes of settings that are not obeyed
  std::vector<std::string> refused;                              ///< finished messages

  /// Whether any source gives the key, by this name, with its section or without.
  [[nodiscard]] bool gives(const std::string& key) const;
};

/// The setting of FSDP that shards within machines and copies across them; nothing: there is none.
[[nodiscard]] std::optional<config::PlacedOption> hybrid_strategy(
    const std::vector<std::vector<config::PlacedOption>>& sources);

/// A note that such a setting has no effect where `why`, which nothing said of dp_replicate_size goes with.
[[nodiscard]] std::string note_on_one_copy(const config::PlacedOption& strategy, const char* why);

/// Whether any setting gives the key, by this name, with its section or without.
[[nodiscard]] bool gives_key(const std::vector<std::vector<config::PlacedOption>>& sources, const std::string& key);

/// The keys that a planner chooses where they are auto, without their sections.
[[nodiscard]] const std::vector<std::string>& sizes_of_plans();

/// Which of sizes_of_plans() a planner is free to choose. More than those that are auto: with the mesh, whatever it
/// needs to keep the rows of a step, unless it is given. Empty: there is nothing to plan, for what sft resolves itself
/// is no more than the ranks that are left (dp_shard_size) or the way over sp (sp_method).
[[nodiscard]] std::set<std::string> free_sizes(const Request& request);

/// Rows of a step that a plan of `num_ranks` ranks keeps: DeepSpeed's train_batch_size, else what TRL has on so many
/// processes: per_device_train_batch_size * gradient_accumulation_steps on each, but for those that share a row or a
/// layer by a given sp_size or tp_size.
[[nodiscard]] std::int64_t rows_of_step(const Request& request, const config::Config& config, int num_ranks);

/// Sorts the settings of one source (a file, or the command line) into the request; those of earlier sources are
/// replaced. `options_of_prepare`: names of all options of sft-prepare. What cannot be obeyed goes to `refused`, or is
/// left to config::parse_sources.
void take(Request& request, const std::vector<config::PlacedOption>& source,
          const std::vector<std::string>& options_of_prepare);

/// Whether any of the settings names data to train on.
[[nodiscard]] bool names_data(const std::vector<config::PlacedOption>& settings);

/// The settings of a file for a run whose `num_ranks` ranks (0: not known) somebody else has started: without those
/// that say how processes start, on which `notes` get a line each where they ask for something. Throws a configuration
/// Error where the file asks for another number.
[[nodiscard]] std::vector<config::PlacedOption> settings_of_run(const std::vector<config::PlacedOption>& settings,
                                                                int num_ranks, std::vector<std::string>& notes);

}  // namespace sft::launch
