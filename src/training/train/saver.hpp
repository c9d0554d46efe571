// SPDX-License-Identifier: Apache-2.0
#pragma once
// The checkpoints of a run. Where there is memory for a copy of the state (checkpoint.async), training stands still
// only where that copy takes longer than the passes of a step: a thread writes it, and the ranks complete the
// checkpoint together at the end of a later step.

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "background_task.hpp"
#include "sft/checkpoint/checkpoint.hpp"
#include "sft/checkpoint/save.hpp"
#include "sft/checkpoint/snapshot.hpp"
#include "sft/train/run.hpp"

namespace sft::train {

class Saver {
 public:
  explicit Saver(const Run& run);
  /// Waits for the thread. A checkpoint that is under way then stays incomplete.
  ~Saver() = default;
  Saver(const Saver&) = delete;
  Saver& operator=(const Saver&) = delete;

  /// Begins to save `state` as it is, which is that of `position`: the run's, or a part of it with the same first
  /// entry. Another save is completed first. Without memory for a copy, it is complete when this returns. Collective
  /// over the world. Errors are SharedErrors: the run ends with them, and nothing is left of a checkpoint that is not
  /// complete. `before`: local work in front of it, whose error is that of all.
  void begin(const checkpoint::Position& position, const checkpoint::State& state, const std::function<void()>& before);
  /// Whoever changes the state calls it before: it waits for the copy. Local.
  void release_state();
  /// Completes the save that is under way, if there is one: waits for all ranks to have written. Collective over the
  /// world. Errors as those of begin(), and `before` too.
  void finish(const std::function<void()>& before = {});
  /// finish(), and old checkpoints are gone: before the run ends. Collective over the world.
  void close();

  /// Whether a save is under way: the same on all ranks.
  [[nodiscard]] bool is_under_way() const { return under_way_.has_value(); }
  /// Whether this rank still writes, and whether it could not.
  [[nodiscard]] bool is_writing() const { return is_copying_ || !writer_.is_done(); }
  [[nodiscard]] bool has_failed() const {
    return under_way_ && !is_writing() && (writer_.has_failed() || under_way_->save->has_failed());
  }

  /// The last complete checkpoint of this run: written, or read (set_saved). Step -1 and empty: none.
  [[nodiscard]] std::int64_t saved_step() const { return saved_step_; }
  [[nodiscard]] const std::string& saved_folder() const { return saved_folder_; }
  void set_saved(std::int64_t step, const std::string& folder);
  /// The seconds that this rank did not train for want of a save, since the last call.
  [[nodiscard]] double take_stall_s();

 private:
  using Clock = std::chrono::steady_clock;

  struct UnderWay {
    std::unique_ptr<checkpoint::Save> save;
    checkpoint::Position position;
    checkpoint::State state;
    Clock::time_point start;
    double waited_s = 0.0;
  };
  /// Counts the time of `work` as waited for a save; `what` it is, for the timeline.
  template <class Work>
  void stall(const char* what, const Work& work);
  /// The thread writes what is copied; on CPUs it makes the copy first, beside the next step's passes.
  void start_writer();
  /// Without a copy: writes the state itself.
  void write_state();
  /// Makes a checkpoint of what the ranks write, when all have.
  void complete(const std::function<void()>& before);
  void log_saved(const UnderWay& done) const;

  const Run& run_;
  std::optional<checkpoint::Snapshot> snapshot_;  ///< none: training waits for saves
  std::optional<UnderWay> under_way_;
  bool is_copying_ = false;  ///< nobody has waited for the copy
  std::int64_t saved_step_ = -1;
  std::string saved_folder_;
  std::string date_;  ///< of the last checkpoint written: the next one comes after it
  double stall_s_ = 0.0;
  BackgroundTask pruner_;
  BackgroundTask writer_;  ///< last, so that it ends before what it works on goes
};

}  // namespace sft::train
