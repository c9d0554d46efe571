#pragma once
// Fully sharded parameters (ZeRO stage 3, Rajbhandari et al. 2020; FSDP, Zhao et al. 2023): every unit lives as shards
// over the fsdp group and is whole only while it is used.
//
// The verbs of a unit in one micro-batch: gather (start, ahead of time), use (wait), release; then, for its gradient,
// gradient/accumulated_gradient while the backward pass writes, and reduce once it is whole. With one rank in the fsdp
// group the views lead straight into the shards and nothing moves.
//
// Order is the caller's duty and not checked. Every other block uses the same buffers, and so do embedding and head
// unless tied: of units that do, one is released before the next is gathered (with reshard_after_forward; without, each
// has its own parameters), and its gradient is reduced before the next one's is written.

#include <cstdint>
#include <memory>
#include <vector>

#include "sft/comm/collectives.hpp"
#include "sft/device/arena.hpp"
#include "sft/device/device.hpp"
#include "sft/mesh/groups.hpp"
#include "sft/ops/backend.hpp"
#include "sft/parallel/shard_map.hpp"
#include "sft/tensor/tensor.hpp"

namespace sft::parallel {

/// A gradient to write: `tensor`, float32, is overwritten or, when it already holds a part, added to.
struct GradientTarget {
  Tensor tensor;
  bool accumulate;
};

class ShardedUnits {
 public:
  struct Options {
    DType compute = DType::float32;     ///< dtype of gathered parameters
    bool reshard_after_forward = true;  ///< release blocks between forward and backward
    bool tied = false;                  ///< the head uses the embedding unit's table
  };
  struct Arenas {
    device::Arena parameters, gradients, optimizer, unit_buffers;
  };

  /// Unit 0 is the embedding, the last one the head, the others the blocks. All references outlive it. Local.
  ShardedUnits(const ShardMap& shard_map, const mesh::Groups& groups, const Options& options, device::Device& device,
               ops::Backend& backend, comm::Collectives& collectives, device::Stream& comm_stream);

  /// Takes the shards and buffers from `arenas`; call with sizing arenas, then with real ones.
  void lay_out(Arenas& arenas);

  // The rank shard, float32 (rank_shard_elements).
  [[nodiscard]] Tensor parameter_shard() const { return parameters_; }
  [[nodiscard]] Tensor gradient_shard() const { return gradients_; }
  [[nodiscard]] Tensor exp_avg() const { return exp_avg_; }
  [[nodiscard]] Tensor exp_avg_sq() const { return exp_avg_sq_; }
  /// The bf16 copy of the parameters that gathers send; empty with float32.
  [[nodiscard]] Tensor compute_shard() const { return compute_shard_; }
  /// Must follow every write to the parameters: later gathers see it.
  void parameters_written();
  /// Refreshes the bf16 copy from the float32 parameters, where the writer did not keep both.
  void refresh_compute_shard();

  // gather, use and reduce are collective over the fsdp group, in the same order on all its ranks. Errors of the
  // communication surface as comm/collectives.hpp says.
  /// Starts gathering the unit's parameters; nothing when they are there or on their way.
  void gather(int unit);
  /// Makes later ops of the backend wait for the parameters, which it gathers first where gather was not called.
  void use(int unit);
  /// Local: the ops queued so far are the last that read the parameters; their buffer is free for another unit behind
  /// them. Nothing when the unit is not gathered.
  void release(int unit);
  /// Starts adding the sum of the unit's gradient over the group to the gradient shard; parameters whose gradient was
  /// not written since begin_step or the last reduce count as zero. Once a micro-batch.
  void reduce(int unit);
  /// Lets communication under way progress. Local.
  void poll() { comm_stream_.poll(); }

  /// Local (tp) slice of parameters [index, index + count) of a unit in use, as one matrix (sum of rows, columns) or
  /// vector; several must have equal columns, else std::logic_error. compute dtype. Undefined contents when the unit is
  /// not in use.
  [[nodiscard]] Tensor parameter(int unit, int index, int count = 1) const;
  /// Where to write their gradient. Throws std::logic_error when some of them hold a part already and others do not.
  [[nodiscard]] GradientTarget gradient(int unit, int index, int count = 1);
  /// The same for ops that always add: zeroed at the first touch.
  [[nodiscard]] Tensor accumulated_gradient(int unit, int index, int count = 1);

  /// Forgets the last step's gradients.
  void begin_step();
  /// Once a step, after all reduces of all micro-batches: sums parts over tp and key/value replicas, then replicas of
  /// the model, with one all-reduce a unit. Collective over the tp, kv_replicas and replicate groups.
  void finish_gradients();

  /// What the collectives need for these units.
  [[nodiscard]] comm::StagingPlan staging() const;

 private:
  struct UnitState {
    Tensor full, full_gradient;  ///< (num_elements) compute dtype; float32
    Tensor shard, gradient_shard;
    int parameter_slot = 0, gradient_slot = 0;
    bool gathered = false;
    std::unique_ptr<device::Event> gather_done;
    std::vector<bool> touched;  ///< per parameter: the gradient holds a part
  };
  struct Slot {
    std::int64_t elements = 0;
    Tensor buffer;
    std::unique_ptr<device::Event> free;  ///< the last user is done with it
  };

  [[nodiscard]] bool is_sharded() const { return groups_.fsdp.size() > 1; }
  void assign_slots();
  [[nodiscard]] Tensor slice(const Tensor& flat, int unit, int index, int count) const;
  /// Makes a whole gradient of one that lacks parameters: they and the padding become zero.
  void zero_untouched(int unit);

  const ShardMap& shard_map_;
  const mesh::Groups& groups_;
  Options options_;
  device::Device& device_;
  ops::Backend& backend_;
  comm::Collectives& collectives_;
  device::Stream& comm_stream_;
  std::unique_ptr<device::Event> compute_done_, comm_done_, parameters_ready_;

  Tensor parameters_, gradients_, exp_avg_, exp_avg_sq_, compute_shard_;
  std::vector<UnitState> units_;
  std::vector<Slot> parameter_slots_, gradient_slots_;
};

}  // namespace sft::parallel
