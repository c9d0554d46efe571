// SPDX-License-Identifier: Apache-2.0
#pragma once
// Sharded checkpoints: any mesh writes, any mesh reads, any HDF5 tool can see whole tensors. save.hpp writes them in
// steps, beside training.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sft/checkpoint/lineage.hpp"
#include "sft/checkpoint/state.hpp"
#include "sft/config/config.hpp"
#include "sft/core/markup.hpp"
#include "sft/device/device.hpp"
#include "sft/io/tensor_source.hpp"
#include "sft/mesh/groups.hpp"
#include "sft/parallel/shard_map.hpp"

namespace sft::checkpoint {

/// Sums over the steps since the last line of metrics.jsonl: with them the next line does not depend on a restart.
struct LogWindow {
  std::int64_t num_steps = 0;
  double loss = 0.0, mean_token_accuracy = 0.0, entropy = 0.0;
};

/// What a run has decided on the way, beside what its steps and evaluations say.
struct Decisions {
  std::optional<double> best_metric = {};  ///< of the evaluations so far; empty: none was judged
  std::int64_t best_step = -1;             ///< whose weights had it; -1: none
  /// The checkpoint of the best weights among those that were saved, which save_total_limit leaves alone: a folder
  /// beside this one by its name, another with its path; empty: none.
  std::string best_checkpoint = "";
  std::int64_t num_worse_evaluations = 0;  ///< in a row, as early stopping counts them
  std::int64_t num_skipped_steps = 0;      ///< left out because something was NaN or Inf
  std::int64_t num_skipped_in_a_row = 0;   ///< of them, the last ones
  std::int64_t num_high_losses = 0;        ///< steps in a row up to this one, as the watchdog over the loss counts them

  bool operator==(const Decisions&) const = default;
};

/// Who wrote the checkpoints after that of `step` (0: all), up to the next Writer's.
struct Writer {
  std::int64_t step = 0;
  std::string run_id, sft_version;
  std::string mesh;  ///< as mesh::Layout describes it
  std::int64_t num_hosts = 0;
  std::int64_t batch_rows = 0;  ///< of a step; 0: an earlier version did not say it

  [[nodiscard]] bool is_like(const Writer& other) const {
    return run_id == other.run_id && sft_version == other.sft_version && mesh == other.mesh &&
           num_hosts == other.num_hosts && batch_rows == other.batch_rows;
  }
};

/// Where a run stands.
struct Position {
  std::int64_t step = 0;  ///< optimizer steps done
  double epoch = 0.0;
  std::int64_t rows_consumed = 0;                          ///< position in the row order
  config::RowOrder row_order = config::RowOrder::endless;  ///< which one; the only one that sft 0.1.0 knew
  std::int64_t num_tokens = 0;                             ///< trained on so far
  std::int64_t num_target_tokens = 0;
  std::int64_t num_rows = 0;          ///< of the data set that the row order runs through
  std::int64_t max_length = 0;        ///< of its rows
  std::string data_fingerprint = "";  ///< of that data set, rows::PackedDataset's; empty: not known (sft 0.1.0)
  Markup markup = {};                 ///< what those rows were written with
  LogWindow since_log = {};
  std::int64_t evaluated_step = -1;  ///< the weights of that step were evaluated last; -1: none were
  std::string schedule = "";         ///< what the learning rate follows from beside the step; empty: nothing
  Lineage lineage = {};              ///< of the run; matters on rank 0, which writes it
  /// The frozen weights that adapters were trained beside: what they are (LoadedWeights; "random": those of
  /// model.init_seed), and the folder that held them. Empty: there are none, or an earlier version wrote it.
  std::string frozen_fingerprint = "", frozen_origin = "";
  /// When it was saved, as Header has it. What is saved at a Position gets a later date, whatever the clock says.
  std::string date = "";
  Decisions decisions = {};
  bool is_model_only = false;        ///< the checkpoint holds weights alone: no run goes on from it
  std::string time_use = "";         ///< what the time of the run went to, as train::Goodput has it; matters on rank 0
  std::vector<Writer> writers = {};  ///< of the checkpoint and those that it goes on from; earlier versions kept none
};

/// Adds who goes on from `position` now, unless it is who came there: its lineage's run, this program, and these.
/// `batch_rows`: of a step; 0: there are no steps.
void add_writer(Position& position, const std::string& mesh, std::int64_t num_hosts, std::int64_t batch_rows);

/// "OUTPUT_DIR/checkpoint-000100"
[[nodiscard]] std::string path_of(const std::string& output_dir, std::int64_t step);
/// Folders of complete checkpoints in output_dir of steps after `after_step`, ascending by step. Not collective.
[[nodiscard]] std::vector<std::string> list(const std::string& output_dir, std::int64_t after_step = -1);

/// Writes OUTPUT_DIR/checkpoint-SSSSSS with the entries of `state`, complete or not at all, while the run waits for it:
/// what Save (save.hpp) does in steps. Then keeps, of the checkpoints of this run and those that it goes on from
/// (position.lineage), the `save_total_limit` saved last (0: all) and the best one; those of other runs stay. Returns
/// the date that was written on rank 0, for position.date of the next save. Collective over the world.
std::string save(const std::string& output_dir, const config::Config& config, const std::string& tokenizer,
                 const mesh::Place& place, const mesh::Groups& groups, const State& state, const Position& position,
                 device::Device& device, device::Stream& stream);

/// What a save takes on the rank at `place` beside buffers of a few MiB: for the virtual datasets that few pieces get.
[[nodiscard]] std::size_t index_memory_bytes(const mesh::Place& place);

/// Reads a complete checkpoint into `state`, each rank the pieces it holds, and refreshes what follows from them. Rank
/// 0 reads checkpoint.h5 for all and compares entries, names and shapes with those of the state. Of ranks that hold the
/// same shard one reads each piece, for all of them. Every byte is compared with its hash: while it is read, where the
/// mesh is that of the writers, else before, files divided among the ranks. Weights that are NaN, Inf or all zeros are
/// refused (LoadedWeights). After an error the state is neither what it was nor what the checkpoint holds. Collective
/// over the world, which has the mesh of the entries' shard maps. Errors are data Errors, the same on all ranks, that
/// name the file, and the tensor where one is concerned.
[[nodiscard]] Position load(const std::string& folder, const comm::Group& world, const State& state,
                            device::Device& device, device::Stream& stream);

/// Reads the entries of `weights` alone, as load() does: a new run begins with them. `seen` gets those of "model".
void load_weights(const std::string& folder, const comm::Group& world, const State& weights, device::Device& device,
                  device::Stream& stream, LoadedWeights& seen);

/// Fills `state` from `source`, which every rank has opened and which has passed check_entries: of ranks that hold the
/// same shard one reads each piece, for all of them. Else as load_entries(). Collective over the world, which has the
/// mesh of the entries' shard maps; a data Error is the same on all ranks.
void load_shared(const io::TensorSource& source, const comm::Group& world, const State& state, device::Device& device,
                 device::Stream& stream, LoadedWeights& seen);

/// Writes the entry "model" of `source` (one or two dims each), part by part, as a complete checkpoint of step 0 with
/// zero moments, in place of what is at `folder`. `config`: what the checkpoint says it is of. Not collective.
void import_weights(const std::string& folder, const config::Config& config, const io::TensorSource& source);

/// The whole tensors of a complete checkpoint, whatever entries it has, as float32 or bf16. Refuses a damaged
/// checkpoint.h5, and a shard file that is missing or cut; the contents of shard files are not compared (see verify).
/// Not collective.
[[nodiscard]] std::unique_ptr<io::TensorSource> open_source(const std::string& folder);

/// Makes tensors.h5 in a complete checkpoint: its whole tensors for other tools, as virtual datasets over the shard
/// files in the full logical shape. Small checkpoints have it from the beginning. Returns its path; of a checkpoint of
/// format version 1 that of checkpoint.h5, which holds them itself. Not collective.
std::string write_tensor_index(const std::string& folder);

/// The configuration (ini text) and tokenizer name that a checkpoint carries, and where it stands. Not collective.
struct Header {
  std::string config_ini;
  std::string tokenizer;
  std::string mesh;
  Position position;
  std::string sft_version;
  std::int64_t format_version = 0;
  std::string date;  ///< of the save, UTC, ISO 8601 with microseconds; not before that of what it goes on from
};
[[nodiscard]] Header read_header(const std::string& folder);

/// The complete checkpoint in output_dir that was saved last; empty when there is none. One that goes on from another
/// (their lineage says so) was saved after it, whatever their dates are: then the clock was wrong for a while. Others
/// go by date, of equal ones by step: when a run began again at an earlier step, what it saved comes after later steps
/// of the branch that it left. Refuses to choose while a checkpoint.h5 there cannot be read. Not collective.
[[nodiscard]] std::string saved_last(const std::string& output_dir);
/// The latest date of the complete checkpoints in output_dir that can be read; empty when there is none. Not
/// collective.
[[nodiscard]] std::string latest_date(const std::string& output_dir);

/// What resume_from_checkpoint = auto | none | PATH means now: a folder, or empty to start anew. `auto` takes the
/// checkpoint in output_dir that was saved last, without those in `damaged`, and without those whose checkpoint.h5 is
/// damaged, each with a warning. A data Error where no other is left than these, and for one that only another version
/// of this program can read. Gives one that a crash left under another name its name back. Not collective.
[[nodiscard]] std::string find_resume(const config::Config& config, const std::vector<std::string>& damaged = {});

/// The header of that checkpoint; nothing when there is none, or none that can be read. Changes nothing in output_dir,
/// which another run may be using. Not collective.
[[nodiscard]] std::optional<Header> header_of_resume(const config::Config& config,
                                                     const std::vector<std::string>& damaged = {});

/// The lineage of a run that goes on from the checkpoint `folder` with the header `saved`: the same run, when it is the
/// checkpoint that this run saved there last, apart from those in `damaged`; else one that branches off. Not
/// collective.
[[nodiscard]] Lineage resume_lineage(const std::string& output_dir, const std::string& folder, const Header& saved,
                                     const std::vector<std::string>& damaged = {});

/// The complete checkpoints in output_dir, ascending by step, that neither a run at `position` wrote nor those that it
/// goes on from. One that names no run, or cannot be read, is among them if its step is later. Not collective.
[[nodiscard]] std::vector<std::string> list_of_others(const std::string& output_dir, const Position& position);

}  // namespace sft::checkpoint
