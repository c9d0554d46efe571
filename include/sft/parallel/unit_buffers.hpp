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

/// Which buffer ("slot") each unit uses. Unit 0 is the embedding, the last one the head, the others the blocks.
///
/// Two slots serve all blocks, one unit ahead of the other. Embedding and head share one, unless tied, when the table
/// is used on both ends. Where every rank keeps gathered units until their backward pass, each has a slot of its own
/// for its parameters.
struct SlotAssignment {
  SlotAssignment(int num_units, const ShardingPolicy& policy, bool tied);

  IndexedVector<UnitIndex, SlotIndex> parameters, gradients;  ///< the slot that each unit uses for them
  [[nodiscard]] int num_parameter_slots() const;
  [[nodiscard]] int num_gradient_slots() const;
  /// Whether a later unit needs the slot of this one's parameters.
  [[nodiscard]] bool is_displaced(UnitIndex unit) const;
  /// Whether these two use one slot for their parameters.
  [[nodiscard]] bool share_parameters(UnitIndex unit, UnitIndex other) const;
};

/// The whole parameters and gradients of every unit, of all its parts.
///
///   what the policy shards                   a slot, in which the parts of a unit lie one after the other; experts in
///                                            one of their own beside it, which ranks share with others than the rest
///   what it does not, of a sharded storage   memory of its own, for the whole run
///   what is stored whole                     views of the storage
///   dequantized elements of a part in 4 bits     memory of its own, which its units use in turn
///   8-bit floats of a rank's shard           the same, for all parts
///   their scales                             memory of its own, for the whole run
class UnitBuffers {
 public:
  /// All references outlive it.
  UnitBuffers(const StoredParts& storage, const ShardingPolicy& policy, const SlotAssignment& slots)
      : storage_(storage), policy_(policy), slots_(slots) {}

  /// Where the memory is taken, of experts or of all other parts.
  struct Arenas {
    device::Arena &parameters, &gradients;  ///< for what lies there for the whole run
    /// For parameter slots that all ranks of PartGroups::shards fill with the same unit at the same time, and read
    /// alone: what comm::MemoryUse::gathered asks for.
    device::Arena& gathered;
    device::Arena& reduced;  ///< for gradient slots
    /// For what neighbours in `reshard` gather or keep, rounded gradients, dequantized of parts in 4 bits, and 8-bit
    /// floats that gathers send.
    device::Arena& own;
  };
  /// Takes the buffers, after the storage was laid out; call with sizing arenas, then with real ones.
  void lay_out(const Arenas& arenas, const Arenas& of_experts);

  // Flat tensors of a part of a unit, num_elements long; empty where the unit has no parameters in it.
  /// Whole parameters, in Part::sent: of a part in 4 bits its records (Part::in_memory), of one in fp8 its codes.
  [[nodiscard]] Tensor parameters(PartIndex part, UnitIndex unit) const { return parts_[part].parameters[unit]; }
  /// What the records of a part in 4 bits are turned into, in Part::gathered: every unit's are in the same memory.
  [[nodiscard]] Tensor dequantized(PartIndex part, UnitIndex unit) const {
    return parts_[part].dequantized.rows(0, storage_[part].shard_map().unit(unit).num_elements);
  }
  /// Of a part in fp8, for gathers to send: the codes of this rank's shard of the unit, shard_elements. Every unit's
  /// are in the same memory.
  [[nodiscard]] Tensor codes(PartIndex part, UnitIndex unit) const { return parts_[part].codes[unit]; }
  /// Of a part in fp8: the scales of the unit's matrices (matrices_of), one behind the other, float32.
  [[nodiscard]] Tensor scales(PartIndex part, UnitIndex unit) const { return parts_[part].scales[unit]; }
  /// Whole gradients, float32; of parts that have them.
  [[nodiscard]] Tensor gradients(PartIndex part, UnitIndex unit) const { return parts_[part].gradients[unit]; }
  /// What this rank keeps of the gathered parameters between the forward and the backward pass, num_elements /
  /// reshard_size of them. Empty where it keeps nothing, or all.
  [[nodiscard]] Tensor kept_parameters(PartIndex part, UnitIndex unit) const { return parts_[part].kept[unit]; }

  /// Where `num_elements` of a gradient lie while they travel as bf16 (comm::AllReduce::wire): one memory for all.
  /// Empty where gradients travel as they are.
  [[nodiscard]] Tensor wire(std::int64_t num_elements) const {
    return wire_.empty() ? Tensor() : wire_.rows(0, num_elements);
  }

 private:
  struct PartBuffers {
    IndexedVector<UnitIndex, Tensor> parameters, gradients, kept, codes, scales;
    Tensor dequantized;
  };

  // Of the parts of experts, or of the others.
  void lay_out_parameters(const Arenas& arenas, bool of_experts);
  void lay_out_gradients(const Arenas& arenas, bool of_experts);
  void lay_out_kept(device::Arena& arena);
  void lay_out_dequantized(device::Arena& arena);
  void lay_out_codes(device::Arena& arena);
  void lay_out_wire(device::Arena& arena);

  const StoredParts& storage_;
  const ShardingPolicy& policy_;
  const SlotAssignment& slots_;
  IndexedVector<PartIndex, PartBuffers> parts_;
  Tensor wire_;
};

}  // namespace sft::parallel
