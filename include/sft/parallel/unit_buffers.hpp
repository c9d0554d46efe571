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
/// is used on both ends. Without resharding every unit keeps its own parameters until its backward pass.
struct SlotAssignment {
  SlotAssignment(int num_units, bool reshard_after_forward, bool tied);

  std::vector<int> parameters, gradients;  ///< slot of each unit
  [[nodiscard]] int num_parameter_slots() const;
  [[nodiscard]] int num_gradient_slots() const;
};

/// The whole parameters and gradients of every unit. What the policy does not shard is whole in the storage already:
/// then these are views of it and nothing is taken.
class UnitBuffers {
 public:
  /// All references outlive it.
  UnitBuffers(const UnitStorage& storage, const ShardingPolicy& policy, const SlotAssignment& slots)
      : storage_(storage), policy_(policy), slots_(slots) {}

  /// Takes the buffers from `arena`, after the storage was laid out; call with a sizing arena, then with a real one.
  void lay_out(device::Arena& arena);

  // (num_elements) of the unit in the map of its trainable or frozen parameters; a unit may lack either.
  /// Compute dtype.
  [[nodiscard]] Tensor parameters(int unit) const { return parameters_[static_cast<std::size_t>(unit)]; }
  [[nodiscard]] Tensor frozen_parameters(int unit) const { return frozen_parameters_[static_cast<std::size_t>(unit)]; }
  /// float32; of trainable parameters alone.
  [[nodiscard]] Tensor gradients(int unit) const { return gradients_[static_cast<std::size_t>(unit)]; }

 private:
  const UnitStorage& storage_;
  const ShardingPolicy& policy_;
  const SlotAssignment& slots_;
  std::vector<Tensor> parameters_, frozen_parameters_, gradients_;  ///< of each unit
};

}  // namespace sft::parallel
