#pragma once
// The loop of one run: restore, train, save. All calls are collective over the world.

#include <cstdint>
#include <optional>
#include <string>

#include "sft/checkpoint/checkpoint.hpp"
#include "sft/core/error.hpp"
#include "sft/data/loader.hpp"
#include "sft/train/metrics.hpp"
#include "sft/train/run.hpp"
#include "sft/train/signals.hpp"

namespace sft::train {

class Trainer {
 public:
  explicit Trainer(const Run& run);

  /// Leaves resolved.ini in output_dir and gives the engine random weights, or those of the checkpoint that
  /// resume_from_checkpoint means now. Refuses a checkpoint of another run with a configuration Error.
  void restore();
  /// Prints what is about to run.
  void announce() const;
  /// Steps until the last one or a signal; logs and saves as configured. Returns done, or stopped when a signal ended
  /// it. A numerical Error ends it without saving. Signals count from the first step to the end of the Trainer (see
  /// StopSignals); before, they end the process.
  [[nodiscard]] ExitStatus train();
  /// Writes a checkpoint of where the run stands, unless that one was written already.
  void save();

 private:
  [[nodiscard]] data::LoaderPlan loader_plan() const;
  /// What a step leaves in metrics.jsonl; collective, for the memory peaks of all ranks.
  [[nodiscard]] StepMetrics measure(const StepResult& result, double learning_rate, double step_time_s) const;

  Run run_;
  std::int64_t batch_rows_;
  std::int64_t last_step_;
  checkpoint::Position position_;
  std::int64_t saved_step_ = -1;  ///< -1: none
  std::string origin_;            ///< of the weights, for people
  std::optional<StopSignals> signals_;
};

}  // namespace sft::train
