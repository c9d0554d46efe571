// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where units are whole while they are used: buffers that several units share, one after the other. Pure: planning lays
// them out without a device.

#include <vector>

#include "sft/device/arena.hpp"
#include "sft/parallel/shard_map.hpp"
#include "sft/parallel/sharding_policy.hpp"
#include "sft/parallel/unit_storage.hpp"
#include "sft/tensor/tensor.hpp"

namespace sft::parallel {

/// The number of a buffer that several units use in turn.
using SlotIndex = Index<struct Slot>;

/// Which buffer ("slot") each unit uses. Unit 0 is the embedding, the last one the head, the others the blocks.
///
/// Two slots serve all blocks, one unit ahead of the other. Embedding and head share one, unless tied, when the table
/// is used on both ends. Where every rank keeps gathered units until their backward pass, each has a slot of its own
/// for its parameters.
struct SlotAssignment {
  SlotAssignment(int num_units, const ShardingPolicy& policy, bool tied);

  IndexedVector<UnitIndex, SlotIndex> parameters, gradients;  ///< slot of each unit
  [[nodiscard]] int num_parameter_slots() const;
  [[nodiscard]] int num_gradient_slots() const;
  /// Whether a later unit needs the slot of this one's parameters.
  [[nodiscard]] bool is_displaced(UnitIndex unit) const;
  /// Whether these two use one slot for their parameters.
  [[nodiscard]] bool share_parameters(UnitIndex unit, UnitIndex other) const;
};

/// The whole parameters and gradients of every unit.
///
///   what the policy shards                   a slot
///   what it does not, of a sharded storage   memory of its own, for the whole run
///   with nothing sharded                     views of the storage
class UnitBuffers {
 public:
  /// All references outlive it.
  UnitBuffers(const UnitStorage& storage, const ShardingPolicy& policy, const SlotAssignment& slots)
      : storage_(storage), policy_(policy), slots_(slots) {}

  /// Where the memory is taken.
  struct Arenas {
    device::Arena &parameters, &gradients;  ///< for what lies there for the whole run
    /// For parameter slots that all ranks of fsdp fill with the same unit at the same time, and read alone: what
    /// comm::MemoryUse::gathered asks for.
    device::Arena& gathered;
    device::Arena& reduced;  ///< for gradient slots
    device::Arena& own;      ///< for what neighbours in `reshard` gather or keep
  };
  /// Takes the buffers, after the storage was laid out; call with sizing arenas, then with real ones.
  void lay_out(const Arenas& arenas);

  // (num_elements) of the unit in the map of its trainable or frozen parameters; a unit may lack either.
  /// Compute dtype.
  [[nodiscard]] Tensor parameters(UnitIndex unit) const { return parameters_[unit]; }
  [[nodiscard]] Tensor frozen_parameters(UnitIndex unit) const { return frozen_parameters_[unit]; }
  /// float32; of trainable parameters alone.
  [[nodiscard]] Tensor gradients(UnitIndex unit) const { return gradients_[unit]; }

  // (num_elements / reshard_size): what this rank keeps of a gathered unit between its forward and its backward pass,
  // compute dtype. Empty where it keeps nothing, or all.
  [[nodiscard]] Tensor kept_parameters(UnitIndex unit) const { return kept_parameters_[unit]; }
  [[nodiscard]] Tensor kept_frozen_parameters(UnitIndex unit) const { return kept_frozen_parameters_[unit]; }

 private:
  void lay_out_parameters(const Arenas& arenas);
  void lay_out_gradients(const Arenas& arenas);
  void lay_out_kept(device::Arena& arena);

  const UnitStorage& storage_;
  const ShardingPolicy& policy_;
  const SlotAssignment& slots_;
  IndexedVector<UnitIndex, Tensor> parameters_, frozen_parameters_, gradients_, kept_parameters_,
      kept_frozen_parameters_;
};

}  // namespace sft::parallel
