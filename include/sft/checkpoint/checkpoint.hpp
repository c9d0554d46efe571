// SPDX-License-Identifier: Apache-2.0
#pragma once
// Sharded HDF5 checkpoints: any mesh writes, any mesh reads, any HDF5 tool sees whole tensors.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sft/checkpoint/lineage.hpp"
#include "sft/checkpoint/state.hpp"
#include "sft/config/config.hpp"
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
  std::string data_fingerprint = "";  ///< of that data set, data::PackedDataset's; empty: not known (sft 0.1.0)
  LogWindow since_log = {};
  std::int64_t evaluated_step = -1;  ///< the weights of that step were evaluated last; -1: none were
  std::string schedule = "";         ///< what the learning rate follows from beside the step; empty: nothing
  Lineage lineage = {};              ///< of the run; matters on rank 0, which writes it
  /// The frozen weights that adapters were trained beside: what they are (SeenWeights; "random": those of
  /// model.init_seed), and the folder that held them. Empty: there are none, or an earlier version wrote it.
  std::string frozen_fingerprint = "", frozen_origin = "";
  /// When it was saved, as Header has it. What is saved at a Position gets a later date, whatever the clock says.
  std::string date = "";
};

/// "OUTPUT_DIR/checkpoint-000100"
[[nodiscard]] std::string path_of(const std::string& output_dir, std::int64_t step);
/// Folders of complete checkpoints in output_dir of steps after `after_step`, ascending by step. Not collective.
[[nodiscard]] std::vector<std::string> list(const std::string& output_dir, std::int64_t after_step = -1);

class ShardFileSink;

/// A checkpoint in the making, complete or not at all. Its steps are calls of their own, so that a thread can do the
/// one that takes long.
class Save {
 public:
  Save(const std::string& output_dir, const mesh::Place& place, const mesh::Groups& groups, const State& state,
       std::int64_t step);
  ~Save();
  void write(const std::function<void(io::TensorSink& sink)>& give);
  std::string commit(const config::Config& config, const std::string& tokenizer, const Position& position,
                     const std::function<void()>& wait);
  static void prune(const std::string& folder, const Lineage& lineage, std::int64_t save_total_limit);
  [[nodiscard]] const std::string& folder() const { return folder_; }

 private:
  void agree(const std::function<void()>& work);

  std::string folder_;
  const mesh::Place& place_;
  const mesh::Groups& groups_;
  std::vector<Entry> entries_;
  std::unique_ptr<ShardFileSink> sink_;
  std::string written_;
};

/// Writes OUTPUT_DIR/checkpoint-SSSSSS with the entries of `state`, complete or not at all: shard files to
/// .tmp, synced, virtual datasets, renamed, parent synced. Replica 0 writes; collective over the world. Then keeps, of
/// the checkpoints of this run and those that it goes on from (position.lineage), the `save_total_limit` saved last (0:
/// all); those of other runs stay. Returns the date that was written on rank 0, for position.date of the next save.
std::string save(const std::string& output_dir, const config::Config& config, const std::string& tokenizer,
                 const mesh::Place& place, const mesh::Groups& groups, const State& state, const Position& position,
                 device::Device& device, device::Stream& stream);

/// What save() takes to make the virtual datasets of entries of these layouts: nothing but on rank 0 of the world. HDF5
/// needs about 27 KiB (measured) for each rectangle of the dataset that has most of them. Not collective.
[[nodiscard]] std::size_t index_memory_bytes(const parallel::ShardMap& shard_map,
                                             const std::vector<const parallel::StoredLayout*>& layouts);

/// Reads a complete checkpoint into `state`, each rank the pieces it holds, and refreshes what follows from them.
/// Before that rank 0 compares entries, names and shapes with those of the state, and the ranks divide the shard files
/// among them: each compares sizes and checksums of its part. A rank that cannot open a shard file that it reads from
/// refuses it, and so are weights that are NaN, Inf or all zeros (SeenWeights). Collective over the world. Errors are
/// data Errors that name the file, and the tensor where one is concerned.
[[nodiscard]] Position load(const std::string& folder, const comm::Group& world, const State& state,
                            device::Device& device, device::Stream& stream);

/// Reads the entries of `weights` alone, as load() does: a new run begins with them. `seen` gets those of "model".
void load_weights(const std::string& folder, const comm::Group& world, const State& weights, device::Device& device,
                  device::Stream& stream, SeenWeights& seen);

/// Writes the entry "model" of `source` (one or two dims each), part by part, as a complete checkpoint of step 0 with
/// zero moments, in place of what is at `folder`. `config`: what the checkpoint says it is of. Not collective.
void import_weights(const std::string& folder, const config::Config& config, const io::TensorSource& source);

/// The whole tensors of a complete checkpoint, whatever entries it has, as float32. Refuses a damaged checkpoint.h5,
/// and a shard file that is missing or cut; the contents of shard files are not compared (see verify). Not collective.
[[nodiscard]] std::unique_ptr<io::TensorSource> open_source(const std::string& folder);

/// The configuration (ini text) and tokenizer name that a checkpoint carries, and where it stands. Not collective.
struct Header {
  std::string config_ini;
  std::string tokenizer;
  std::string mesh;
  Position position;
  std::string sft_version;
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
/// checkpoint in output_dir that was saved last. Gives one that a crash left under another name its name back. Not
/// collective.
[[nodiscard]] std::string find_resume(const config::Config& config);

/// The order of rows that the run of that checkpoint has; nothing when there is none, or none that can be read. Changes
/// nothing in output_dir, which another run may be using. Not collective.
[[nodiscard]] std::optional<config::RowOrder> row_order_of_resume(const config::Config& config);

/// Whose run goes on from the checkpoint `folder` into output_dir: the same one, when it is that run's newest
/// checkpoint in output_dir, else one that branches off. Not collective.
[[nodiscard]] Lineage resume_lineage(const std::string& output_dir, const std::string& folder, const Position& saved);

/// The complete checkpoints in output_dir, ascending by step, that neither a run at `position` wrote nor those that it
/// goes on from. One that names no run, or cannot be read, is among them if its step is later. Not collective.
[[nodiscard]] std::vector<std::string> list_of_others(const std::string& output_dir, const Position& position);

}  // namespace sft::checkpoint
