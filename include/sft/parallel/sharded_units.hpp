// SPDX-License-Identifier: Apache-2.0
#pragma once
// Makes units whole before their use and cuts their gradients into shards after it: the exchange between UnitStorage
// (what a rank stores) and UnitBuffers (where units are whole), as ShardingPolicy says. The parts of a unit (Part) are
// gathered, released and reduced together, each over its own groups.
//
// A pass says which units it will use, in which order, and enters one after the other: the unit is then whole, the next
// one on its way, and the one before given up, as UnitWalk says. While the backward pass writes gradients it asks for
// gradient or accumulated_gradient; a unit that is left for the last time is reduced. UnitOrder checks that buffers are
// free. What is stored whole needs no exchange.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "sft/comm/collectives.hpp"
#include "sft/device/device.hpp"
#include "sft/mesh/groups.hpp"
#include "sft/ops/backend.hpp"
#include "sft/parallel/fp8_gathers.hpp"
#include "sft/parallel/unit_buffers.hpp"
#include "sft/parallel/unit_order.hpp"
#include "sft/tensor/tensor.hpp"
#include "sft/transfer/mover.hpp"

namespace sft::parallel {

/// A gradient to write: `tensor`, float32, is overwritten or, when it already holds some of it, added to.
struct GradientTarget {
  Tensor tensor;
  bool accumulate;
};

class ShardedUnits {
 public:
  /// All references outlive it; storage and buffers are laid out before the first verb. Local.
  ShardedUnits(const StoredParts& storage, const UnitBuffers& buffers, const ShardingPolicy& policy,
               const SlotAssignment& slots, const mesh::Groups& groups, device::Device& device, ops::Backend& backend,
               comm::Collectives& collectives, device::Stream& comm_stream, device::Stream& gather_stream);

  /// Must follow every write to parameters that have gradients, and, before the first pass, to the others, which the
  /// ops queued so far make: later passes see it.
  void parameters_written();
  /// The same of one unit, by what is queued on `stream` so far. Ops of the backend that come behind the unit's next
  /// use follow it, too: those that write its gradient, and what is summed behind them.
  void parameters_written(UnitIndex unit, device::Stream& stream);
  /// Writes the copy of the parameters that gathers send anew, where whoever wrote them did not; of those in memory.
  void refresh_compute_copy();

  // Passes are collective over the groups of all parts, in the same order on all their ranks, and with parts in fp8
  // over tp. Errors of the communication surface as comm/collectives.hpp says. A wrong order is a std::logic_error.
  /// Whether a pass reads parameters only, or its gradients are those of a micro-batch.
  enum class Pass { forward, micro_batch };
  /// Begins a pass that will enter these units in this order (the same one twice in a row is entered once), and starts
  /// to gather the first two. A micro-batch visits every unit. One pass at a time.
  void begin_pass(const std::vector<UnitIndex>& units, Pass pass);
  /// The ops that follow use this unit, and no other but those that the pass keeps (UnitWalk); nothing when it is the
  /// current one. The unit that it leaves for the last time in a micro-batch is reduced: the sum of its gradient over
  /// PartGroups::shards is added to the gradient shard, rounded on the way where ShardingPolicy::reduced says so, where
  /// parameters whose gradient was not written count as zero. Without sharded gradients that is in a step's last
  /// micro-batch alone. There the sums over key/value replicas and over replicas of the model follow, which run beside
  /// the next unit's backward pass: then collective over kv_replicas and PartGroups::replicas too.
  void enter(UnitIndex unit);
  /// Leaves the last unit of the pass.
  void end_pass();

  /// Local (tp) slice of the parameters of a unit in use, as one matrix (sum of rows, columns) or vector; several must
  /// have equal columns, else std::logic_error. Dtype: Part::gathered; uint8, codes of 8-bit floats in E4M3, where
  /// fp8_scales are there.
  [[nodiscard]] Tensor parameter(const ParameterGroup& group) const;
  /// Where their part is gathered in fp8: float32, a row with the scales of their matrix (ops::fp8_scale_shape), of
  /// experts a row for each one's; else empty.
  [[nodiscard]] Tensor fp8_scales(const ParameterGroup& group) const {
    return part(group.part).in_fp8 ? fp8_.scales(group) : Tensor();
  }
  /// Where the rows of number `member` of the group begin in it.
  [[nodiscard]] std::int64_t first_row(const ParameterGroup& group, int member) const;
  /// Whether their part has gradients.
  [[nodiscard]] bool has_gradient(const ParameterGroup& group) const { return part(group.part).has_gradient; }
  /// Where to write their gradient. Throws std::logic_error when some of them hold a gradient already and others do
  /// not, and where has_gradient() is false.
  [[nodiscard]] GradientTarget gradient(const ParameterGroup& group);
  /// Where ops add their gradient that always add: zeroed at the first touch. Empty where has_gradient() is false: then
  /// these ops write none.
  [[nodiscard]] Tensor accumulated_gradient(const ParameterGroup& group);

  /// Forgets the gradients of the step before, finished or not; that many micro-batches follow.
  void begin_step(std::int64_t num_micro_batches);
  /// From now on calls `then(unit)` in each unit's last reduce() of a step, when all sums of its gradient but those
  /// over tp (finish_step) are queued on the stream of communication, and nothing later in the step reads its
  /// parameters. Where units share memory for their gradients, `then` queues the last ops that read those of the unit
  /// before it (UnitStorage::lay_out).
  void on_gradient_queued(std::function<void(UnitIndex unit)> then) { gradient_queued_ = std::move(then); }
  /// After all of that: sums what tp ranks have each of gradients they hold in common, and makes later ops of the
  /// backend wait for all sums. Collective over the tp group.
  void finish_step();

  /// What the collectives need for the gradients of these parts. Pure.
  [[nodiscard]] static comm::StagingPlan staging(const StoredParts& storage, const ShardingPolicy& policy);

 private:
  struct UnitState {
    std::unique_ptr<device::Event> gather_done;
    std::unique_ptr<device::Event> written;  ///< the parameters that the next pass uses
    /// Per parameter of each part: its gradient was written, at least once, since the last reduction.
    IndexedVector<PartIndex, std::vector<bool>> touched;
    void forget_gradients();

    std::int64_t reduces_left = 0;
    bool has_sums = false;      ///< the gradient shard holds some of the step's
    bool is_stale = true;       ///< written since the last gather, where one gather serves a step
    bool is_resharded = false;  ///< its neighbours keep it together
  };

  /// Starts gathering the unit's parameters; nothing when they are there or on their way.
  void gather(UnitIndex unit);
  /// Whether the ops use parameters where they are stored: they are never gathered.
  [[nodiscard]] bool uses_storage() const { return !policy_.parameters && !policy_.optimizer_state; }
  /// Copies this rank's shards of the unit's parameters from the memory of the node to their places in the whole; what
  /// is queued on the stream of gathers from now on waits for it.
  void fetch(UnitIndex unit);
  /// Makes later ops of the backend wait for the parameters, and makes numbers of those in 4 bits.
  void use(UnitIndex unit);
  /// Queues the ops that write the unit's numbers of parts in 4 bits, unless they are there.
  void read_four_bits(UnitIndex unit);
  /// The ops queued so far are the last that read the parameters; their buffer is free for another unit behind them.
  void release(UnitIndex unit);
  /// Releases the parameters, and keeps this rank's piece of them for the neighbours, where the policy says so.
  void reshard(UnitIndex unit);
  void reduce(UnitIndex unit);
  /// Makes later ops of the backend wait for all that is queued on the stream of communication.
  void wait_for_sums();
  void leave(std::size_t stop);

  /// Calls visit(part, storage) for each part that has gradients and parameters in the unit.
  template <class Visit>
  void for_each_gradient(UnitIndex unit, const Visit& visit) const;

  /// The label of a range in the timeline.
  [[nodiscard]] device::RangeLabel label(const char* what, UnitIndex unit) const;
  [[nodiscard]] const Part& part(PartIndex index) const { return storage_[index].part(); }
  [[nodiscard]] const ShardMap& names() const { return storage_.front().shard_map(); }
  [[nodiscard]] const comm::Group& group(PartGroups::Member member) const { return groups_.*member; }
  [[nodiscard]] UnitState& state(UnitIndex unit) { return units_[unit]; }
  [[nodiscard]] device::Event& parameter_slot_free(UnitIndex unit) const;
  [[nodiscard]] device::Event& gradient_slot_free(UnitIndex unit) const;
  [[nodiscard]] std::span<const Parameter> members_of(const ParameterGroup& group) const;
  /// What the group names of `flat`, the unit flat of its part.
  [[nodiscard]] Tensor slice(const Tensor& flat, const ParameterGroup& group) const;
  /// Makes whole gradients of those that lack parameters: they and the padding become zero.
  void zero_untouched(UnitIndex unit);
  /// Queues the sums of the unit's gradient shards over the groups that hold the same ones.
  void sum_replicas(UnitIndex unit);

  const StoredParts& storage_;
  const UnitBuffers& buffers_;
  const ShardingPolicy& policy_;
  const SlotAssignment& slots_;
  const mesh::Groups& groups_;
  device::Device& device_;
  ops::Backend& backend_;
  comm::Collectives& collectives_;
  device::Stream& comm_stream_;    ///< sums
  device::Stream& gather_stream_;  ///< gathers, which do not wait for them
  Fp8Gathers fp8_;
  UnitOrder order_;
  UnitWalk walk_;
  Pass pass_ = Pass::forward;
  std::size_t next_stop_ = 0;  ///< the stop of the walk that comes next; the one before is current
  std::unique_ptr<device::Event> compute_done_, comm_done_;
  std::unique_ptr<transfer::Mover> parameters_in_;  ///< from the node's memory; null where they lie on the device
  IndexedVector<UnitIndex, UnitState> units_;
  std::function<void(UnitIndex unit)> gradient_queued_;
  std::optional<UnitIndex> dequantized_unit_;  ///< whose numbers of parts in 4 bits are in their buffer
  /// Recorded for each slot when its last user is done with it.
  IndexedVector<SlotIndex, std::unique_ptr<device::Event>> parameter_slots_free_, gradient_slots_free_;
};

}  // namespace sft::parallel
