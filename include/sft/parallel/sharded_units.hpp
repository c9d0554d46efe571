// SPDX-License-Identifier: Apache-2.0
#pragma once
// Makes units whole before their use and cuts their gradients into shards after it: the exchange between UnitStorage
// (what a rank stores) and UnitBuffers (where units are whole), as ShardingPolicy says.
//
// The verbs of a unit in one micro-batch: gather (start, ahead of time), use (wait), release; then, for its gradient,
// gradient or accumulated_gradient while the backward pass writes, and reduce once it is whole. UnitOrder checks their
// order. What the policy does not shard is whole already: then nothing moves.

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "sft/comm/collectives.hpp"
#include "sft/device/device.hpp"
#include "sft/mesh/groups.hpp"
#include "sft/ops/backend.hpp"
#include "sft/parallel/unit_buffers.hpp"
#include "sft/parallel/unit_order.hpp"
#include "sft/tensor/tensor.hpp"

namespace sft::parallel {

/// A gradient to write: `tensor`, float32, is overwritten or, when it already holds a part, added to.
struct GradientTarget {
  Tensor tensor;
  bool accumulate;
};

class ShardedUnits {
 public:
  /// All references outlive it; storage and buffers are laid out before the first verb. Local.
  ShardedUnits(const UnitStorage& storage, const UnitBuffers& buffers, const ShardingPolicy& policy,
               const SlotAssignment& slots, const mesh::Groups& groups, device::Device& device, ops::Backend& backend,
               comm::Collectives& collectives, device::Stream& comm_stream);

  /// Must follow every write to the parameters: later gathers see it.
  void parameters_written();
  /// Writes the low-precision copy of the parameters anew, where whoever wrote them did not.
  void refresh_compute_copy();

  // gather, use and reduce are collective over the fsdp group, in the same order on all its ranks. Errors of the
  // communication surface as comm/collectives.hpp says. A wrong order is a std::logic_error (UnitOrder).
  /// Starts gathering the unit's parameters; nothing when they are there or on their way.
  void gather(int unit);
  /// Makes later ops of the backend wait for the parameters, which it gathers first where gather was not called.
  void use(int unit);
  /// Local: the ops queued so far are the last that read the parameters; their buffer is free for another unit behind
  /// them. Nothing when the unit is not gathered.
  void release(int unit);
  /// Starts adding the sum of the unit's gradient over the fsdp group to the gradient shard; parameters whose gradient
  /// was not written since begin_step or the last reduce count as zero. Nothing moves for a unit of frozen parameters
  /// alone. Once per micro-batch. In a step's last
  /// micro-batch it also queues the sums over key/value replicas and over replicas of the model, which run beside the
  /// next unit's backward pass: then collective over kv_replicas and replicate too.
  void reduce(int unit);

  /// Local (tp) slice of the parameters of a unit in use, as one matrix (sum of rows, columns) or vector; several must
  /// have equal columns, else std::logic_error. compute dtype.
  [[nodiscard]] Tensor parameter(const ParameterGroup& group) const;
  /// Where the rows of number `member` of the group begin in it.
  [[nodiscard]] std::int64_t first_row(const ParameterGroup& group, int member) const;
  /// Where to write their gradient. Throws std::logic_error when some of them hold a part already and others do not,
  /// and for frozen ones, which have none.
  [[nodiscard]] GradientTarget gradient(const ParameterGroup& group);
  /// The same for ops that always add: zeroed at the first touch. Empty for frozen parameters: then these ops write
  /// none.
  [[nodiscard]] Tensor accumulated_gradient(const ParameterGroup& group);

  /// Forgets the last step's gradients; `num_micro_batches` times every unit will be reduced.
  void begin_step(std::int64_t num_micro_batches);
  /// From now on calls `then(unit)` in each unit's last reduce() of a step, when all sums of its gradient but those
  /// over tp (finish_step) are queued on the stream of communication, and nothing later in the step reads its
  /// parameters.
  void on_gradient_queued(std::function<void(int unit)> then) { gradient_queued_ = std::move(then); }
  /// After all of that: sums the parts that tp ranks have of gradients they hold in common, and makes later ops of the
  /// backend wait for all sums. Collective over the tp group.
  void finish_step();

  /// What the collectives need for these trainable parameters. Pure.
  [[nodiscard]] static comm::StagingPlan staging(const ShardMap& trainable, const ShardingPolicy& policy);

 private:
  struct UnitState {
    std::unique_ptr<device::Event> gather_done;
    std::vector<bool> touched;  ///< per parameter: the gradient holds a part
    std::int64_t reduces_left = 0;
  };

  [[nodiscard]] UnitState& state(int unit) { return units_[static_cast<std::size_t>(unit)]; }
  [[nodiscard]] device::Event& parameter_slot_free(int unit) const;
  [[nodiscard]] device::Event& gradient_slot_free(int unit) const;
  [[nodiscard]] const std::vector<Parameter>& parameters_of(const ParameterGroup& group) const;
  /// The part of `flat`, the trainable or frozen unit flat, that the group names.
  [[nodiscard]] Tensor slice(const Tensor& flat, const ParameterGroup& group) const;
  /// Makes a whole gradient of one that lacks parameters: they and the padding become zero.
  void zero_untouched(int unit);
  /// Queues the sums of the unit's gradient shard over the groups that hold the same one.
  void sum_replicas(int unit);
  /// The parts of the unit's gradient shard whose parameters are split so.
  [[nodiscard]] std::vector<Tensor> gradient_parts(int unit, TpSplit split) const;

  const UnitStorage& storage_;
  const UnitBuffers& buffers_;
  const ShardMap& shard_map_;  ///< of the trainable parameters
  const ShardingPolicy& policy_;
  const SlotAssignment& slots_;
  const mesh::Groups& groups_;
  device::Device& device_;
  ops::Backend& backend_;
  comm::Collectives& collectives_;
  device::Stream& comm_stream_;
  UnitOrder order_;
  std::unique_ptr<device::Event> compute_done_, comm_done_, parameters_ready_;
  std::vector<UnitState> units_;
  std::function<void(int unit)> gradient_queued_;
  /// Per slot: its last user is done with it.
  std::vector<std::unique_ptr<device::Event>> parameter_slots_free_, gradient_slots_free_;
};

}  // namespace sft::parallel
