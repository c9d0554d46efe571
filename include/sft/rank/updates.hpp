// SPDX-License-Identifier: Apache-2.0
#pragma once
// What comes behind the gradients of a step: their norm, and the updates of the optimizers. Each runs where a pass
// hides it, which changes no bit:
//
//   the norm     on GPUs unit by unit under the backward pass, as soon as the unit's gradient is summed
//   updates      on GPUs unit by unit under the next forward pass, which waits for each unit's own, in its order; where
//                nothing has to be known of all gradients first, under the backward pass (EarlyUpdate) where that saves
//                memory or hides files; else behind the norm, before anything else: on CPUs, whose ops run one after
//                the other anyway, with matrices that an optimizer needs whole, and with state in files

#include <cstdint>
#include <memory>
#include <vector>

#include "sft/device/device.hpp"
#include "sft/optim/gradient_norm.hpp"
#include "sft/rank/rank_plan.hpp"
#include "sft/rank/workers.hpp"

namespace sft::rank {

class EarlyUpdate;

/// A step calls, in this order: before_last_micro_batch, finish_gradients, and update unless it is left out. Gradients
/// reach it through ShardedUnits::on_gradient_queued.
class Updates {
 public:
  /// Whether optimizers whose state lies in files are stepped, or left out: where no file is there.
  enum class Files { stepped, left_out };

  /// All outlive it. Local.
  Updates(RankPlan& plan, RankWorkers& workers, device::Device& device, Files files = Files::stepped);
  ~Updates();
  Updates(const Updates&) = delete;
  Updates& operator=(const Updates&) = delete;

  /// What carries the updates, for Optimizer::open.
  [[nodiscard]] device::Stream& stream() const { return ops_.stream(); }

  /// `step` and `learning_rate` as Optimizer::begin_step's. `is_certain`: the step will not be left out, so that its
  /// state may be read ahead under the micro-batch.
  void before_last_micro_batch(std::int64_t step, double learning_rate, bool is_certain);
  /// Behind the last micro-batch: ops of the backend that are queued from now on find gradients that are complete, and
  /// the squares of all that this rank owns added to RankPlan::results. Collective over tp.
  void finish_gradients();
  /// The optimizers' step, of all units that were not stepped under the backward pass. Passes find the new parameters;
  /// other readers and writers of parameters, state or gradients call wait() first. Collective where optimizers share
  /// something.
  void update(std::int64_t step, double learning_rate, double gradient_scale);
  /// What is queued on the compute stream from now on finds all updates done.
  void wait();

 private:
  void gradient_queued(parallel::UnitIndex unit);
  /// Updates that are queued from now on come behind what the compute stream has.
  void follow_compute();
  void step_units();
  [[nodiscard]] Tensor squares() const { return plan_.results.rows(model::Metric::count, 1); }
  [[nodiscard]] device::Stream& compute() const { return *workers_.streams.compute; }

  RankPlan& plan_;
  RankWorkers& workers_;
  device::Device& device_;
  ops::Backend& ops_;                                ///< of the updates
  const std::vector<TrainedPart*> parts_;            ///< that are stepped
  std::vector<optim::GradientNorm> norms_;           ///< by RankPlan::trained
  std::vector<std::unique_ptr<EarlyUpdate>> early_;  ///< of parts_, where units are stepped under the backward pass
  std::unique_ptr<device::Event> computed_, summed_, normed_, updated_;
};

}  // namespace sft::rank
