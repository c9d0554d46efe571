// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a run is made of.

#include <functional>
#include <string>
#include <vector>

#include "sft/checkpoint/state.hpp"
#include "sft/comm/session.hpp"
#include "sft/comm/traffic.hpp"
#include "sft/comm/watch.hpp"
#include "sft/config/valid_config.hpp"
#include "sft/device/device.hpp"
#include "sft/device/ledger.hpp"
#include "sft/io/tensor_source.hpp"
#include "sft/mesh/groups.hpp"
#include "sft/rank/datasets.hpp"
#include "sft/train/engine.hpp"

namespace sft::train {

/// The weights that a new run begins with; a resumed one asks for them when it trains adapters, beside which its
/// checkpoints hold none.
struct StartWeights {
  std::string origin;  ///< for people
  /// Fills the entry "model" and refreshes what follows from it. Returns the fingerprint of weights that stay frozen
  /// (LoadedWeights). Collective over the world.
  std::function<std::string(const checkpoint::State& weights)> load;
};

/// What a run leaves for other programs with each checkpoint: the weights that it trains, in another format.
class SavedModel {
 public:
  SavedModel() = default;
  virtual ~SavedModel() = default;
  SavedModel(const SavedModel&) = delete;
  SavedModel& operator=(const SavedModel&) = delete;

  /// Makes its files, without numbers. Collective over the world.
  virtual void begin() = 0;
  /// Writes this rank's part: `give` hands the sink all that this rank writes of the first entry of Engine::state().
  /// Local, on any thread.
  virtual void write(const std::function<void(io::TensorSink& sink)>& give) = 0;
  /// In place of write(), where this rank does not come to it: other ranks may wait for its part. Local, any thread.
  virtual void abandon() = 0;
  /// Gives it the name that says complete, when all ranks have written. Collective over the world.
  virtual void finish() = 0;
};

/// All that is referred to outlives the Trainer that works with it.
struct Run {
  const comm::Session& session;
  const config::ValidConfig& config;
  device::Device& device;
  const mesh::Place& place;
  const mesh::Groups& groups;
  const rank::Datasets& datasets;
  device::Ledger& ledger;
  Engine& engine;
  /// Checkpoints that `auto` does not go on from, since their numbers cannot be read. Of all ranks, rank 0's count.
  std::vector<std::string>& damaged;
  const StartWeights* start_weights = nullptr;  ///< none: random ones
  SavedModel* saved_model = nullptr;            ///< none: checkpoints alone
  std::string sp_choice = {};                   ///< what resolve_sp_method returned
  std::string save_choice = {};                 ///< what choose_async_save returned
  comm::Watch* watch = nullptr;                 ///< none: nobody looks after the run
  double planned_step_s = 0;                    ///< of a step; 0: not planned. On rank 0
  std::string step_time = {};                   ///< the same in words, of rank 0 (planner::describe(StepTime))
  std::string ops = {};                         ///< and on which ops (planner::describe_ops)
  std::vector<comm::SentBytes> traffic = {};    ///< what this rank sends in a step (rank::plan_traffic)
};

}  // namespace sft::train
