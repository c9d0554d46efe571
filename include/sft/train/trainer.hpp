// SPDX-License-Identifier: Apache-2.0
#pragma once
// The loop of one run: restore, train, save. All calls are collective over the world.

#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sft/checkpoint/checkpoint.hpp"
#include "sft/core/error.hpp"
#include "sft/core/stop_signals.hpp"
#include "sft/optim/schedule.hpp"
#include "sft/rows/batch.hpp"
#include "sft/train/console.hpp"
#include "sft/train/goodput.hpp"
#include "sft/train/metrics.hpp"
#include "sft/train/output_lock.hpp"
#include "sft/train/run.hpp"
#include "sft/train/slowest_rank.hpp"

namespace sft::train {

class Batches;
struct RankState;
class Reports;
class Saver;

class Trainer {
 public:
  explicit Trainer(const Run& run);
  ~Trainer();

  /// What restore() came to.
  enum class Restored {
    done,
    needs_other_plan,  ///< the data sets, and all that is planned from them, are of a run that goes on elsewhere
  };
  /// Takes output_dir for this run, leaves resolved.ini there and gives the engine the weights of the checkpoint
  /// that resume_from_checkpoint means now; a new run those that it starts with, or random ones. With `auto` a
  /// checkpoint that turns out damaged joins Run::damaged, and the one before is taken. Where that one was written with
  /// another batch than the plan is for, nothing is restored: the same on all ranks. Refuses a folder that another run
  /// is writing to with a data Error, and a checkpoint of another model, other seeds or other data with a configuration
  /// Error.
  [[nodiscard]] Restored restore();
  /// Prints what is about to run.
  void announce() const;
  /// Steps until the last one or a signal, which is answered within a micro-batch: the step under way is forgotten.
  /// Logs, evaluates and saves as configured. Returns done, or stopped when a signal ended it; an evaluation that it
  /// cut short is made up for when the run goes on. A numerical Error ends it without saving; rows that cannot be read,
  /// and lines of metrics.jsonl that cannot be written, after saving. Signals count from the first step to the end of
  /// the Trainer (see StopSignals); before, they end the process.
  [[nodiscard]] ExitStatus train();
  /// Completes the checkpoint that is under way beside training, then writes one of where the run stands, unless that
  /// is the one. With save_only_model it
  /// holds the trained weights alone, unless a signal or an error stops the run here.
  void save();
  /// With load_best_model_at_end: gives the engine the trained weights of the best checkpoint, for what a finished run
  /// leaves beside its checkpoints. After save(); nothing is trained or saved after it.
  void load_best();
  /// The checkpoint that was written or read last; empty without one.
  [[nodiscard]] const std::string& saved() const;
  /// Notes the end of the run in its lock, and prints what came of train(), which returned `status`, and the lines of
  /// `next`; nothing when there was nothing to do. Call it last: the memory that it tells is the most so far.
  void summarize(ExitStatus status, const std::vector<std::string>& next);

 private:
  /// What this process has trained, for the summary.
  struct Session {
    std::optional<std::chrono::steady_clock::time_point> start;  ///< none: it had nothing to do
    std::int64_t num_steps = 0, num_tokens = 0;
    double step_time_s = 0.0;
    double first_step_s = 0.0;
    /// But for the first, in which machine code is made and memory is touched first, where there are others.
    [[nodiscard]] double mean_step_s() const;
    void add(const StepMetrics& metrics);
  };

  /// The next micro-batch; what kept this rank from it becomes its failure, if it has none yet. Collective over the
  /// ranks that share rows, also on one that has failed.
  void read(Batches& batches, rows::MicroBatch& batch);
  /// Begins the next step and computes its micro-batches; `batch` is the first of them. Before each of the others the
  /// ranks agree to go on: when one of them has a signal or could not read, the step is left unfinished, which changes
  /// nothing of where the run stands, and its state says so.
  [[nodiscard]] RankState accumulate(Batches& batches, rows::MicroBatch& batch, double learning_rate);
  /// restore(), whose errors are then noted in the folder.
  [[nodiscard]] Restored take_folder_and_weights();
  /// The steps of train().
  [[nodiscard]] ExitStatus run_steps();
  /// What this rank tells the others of itself: its signal, failure_, and how far its part of a save is.
  [[nodiscard]] RankState rank_state() const;
  /// Begins to save where the run stands, and completes the save that is under way.
  void begin_save();
  void complete_save();
  /// Says that a signal ends the run, which is to be saved whole. Returns stopped.
  [[nodiscard]] ExitStatus stop(int signal);
  /// Adds a step to where the run stands.
  void count(const StepResult& result);
  /// The numbers of a step that is counted, without memory.
  [[nodiscard]] StepMetrics measure(const StepResult& result, double learning_rate, double step_time_s) const;
  /// Makes them those of a line of metrics.jsonl: means since the last one, which begin anew, and the memory peaks of
  /// all ranks. Collective.
  void close_window(StepMetrics& metrics);
  /// Whether the weights as they are now are to be evaluated, and were not yet.
  [[nodiscard]] bool is_evaluation_due() const;
  /// Whether eval_strategy evaluates after `step`, the end of the run aside.
  [[nodiscard]] bool is_evaluation_step(std::int64_t step) const;
  /// Whether save_strategy saves after the step that was done, the end of the run aside.
  [[nodiscard]] bool is_save_due() const;
  /// Whether there is a step to train.
  [[nodiscard]] bool has_steps() const;
  /// Tells goodput_ what earlier processes of the run left, and them what this one begins with. On rank 0.
  void open_goodput(const std::string& metrics_path, bool is_new);
  /// Evaluates them, judges, prints and appends what comes out, unless a signal of some rank cuts it short, which is
  /// returned.
  [[nodiscard]] int evaluate(Progress& progress);
  /// evaluate(); the run is saved before rows that cannot be read end it.
  [[nodiscard]] int evaluate_or_save(Progress& progress);
  /// Appends a line to metrics.jsonl, on rank 0. What kept it from that is in failure_.
  template <class Metrics>
  void append(const Metrics& metrics);
  /// Says in the lock, and to what watches the run, that it ended and how. On rank 0.
  void note_end(const std::string& how);
  /// Whether a checkpoint of now holds more than weights.
  [[nodiscard]] bool saves_whole() const;
  /// The entry of the state that is trained: the model, or adapters.
  [[nodiscard]] checkpoint::State trained_weights() const;
  /// Saves and throws the failures of all ranks as one Error.
  void save_and_rethrow();
  /// On rank 0: where output_dir was removed meanwhile, makes it again and takes it, with a warning. A data Error when
  /// another run took it first.
  void keep_output_dir();
  void write_resolved_ini() const;
  /// metrics.jsonl and resolved.ini, on rank 0. `resumed`: the checkpoint's folder, empty for a new start.
  void open_output(const std::string& resumed, const checkpoint::Lineage& saved);

  Run run_;
  rows::StepPositions positions_;
  std::int64_t last_step_;
  optim::Schedule schedule_;
  checkpoint::Position position_;
  std::unique_ptr<Saver> saver_;
  std::exception_ptr failure_;                 ///< of this rank, to be thrown when all know and the run is saved
  std::optional<std::int64_t> resumed_step_;   ///< until the first line of metrics.jsonl
  std::string origin_;                         ///< of the weights, for people
  std::optional<OutputLock> lock_;             ///< on rank 0
  std::unique_ptr<MetricsFile> metrics_file_;  ///< on rank 0
  std::unique_ptr<Reports> reports_;           ///< on rank 0
  std::optional<StopSignals> signals_;
  bool has_told_of_zero_loss_ = false;
  std::int64_t planned_memory_bytes_ = 0;  ///< of the fullest rank
  SlowestRankWatch slowest_;
  bool is_best_ = false;        ///< the last evaluation, if it was after the step that was done last
  bool must_go_on_ = false;     ///< what stopped the run will be over when it goes on
  bool is_saved_whole_ = true;  ///< whether the checkpoint that was saved last is more than weights
  Goodput goodput_;             ///< what others than rank 0 count is of no use
  Session session_;
};

}  // namespace sft::train
