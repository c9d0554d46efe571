// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a rank stores of the model between two uses. Pure: planning lays it out without a device.
//
//   parameter   parameters                         gradients   moments (optim::AdamW)
//   trainable   float32; with bf16, a copy too     float32     float32
//   frozen      once, in the compute dtype         none        none
//
// The arenas decide in which memory space each of them lies.

#include "sft/device/arena.hpp"
#include "sft/parallel/shard_map.hpp"
#include "sft/tensor/tensor.hpp"

namespace sft::parallel {

class UnitStorage {
 public:
  /// The maps of the trainable and of the frozen parameters, with the same units, outlive it. `compute`: dtype of
  /// gathered parameters, float32 or bf16.
  UnitStorage(const ShardMap& trainable, const ShardMap& frozen, DType compute)
      : trainable_(trainable), frozen_(frozen), compute_(compute) {}

  /// Takes the memory from the arenas; call with sizing arenas, then with real ones.
  void lay_out(device::Arena& parameters, device::Arena& gradients);

  [[nodiscard]] const ShardMap& trainable() const { return trainable_; }
  [[nodiscard]] const ShardMap& frozen() const { return frozen_; }
  [[nodiscard]] DType compute() const { return compute_; }

  // The trainable rank shard (rank_shard_elements): master weights and gradient sums, float32.
  [[nodiscard]] Tensor parameters() const { return parameters_; }
  [[nodiscard]] Tensor gradients() const { return gradients_; }
  /// The bf16 copy of the parameters, which gathers send; empty with float32.
  [[nodiscard]] Tensor compute_copy() const { return compute_copy_; }
  /// The frozen rank shard (rank_shard_elements), compute dtype.
  [[nodiscard]] Tensor frozen_parameters() const { return frozen_parameters_; }

  // The part of one unit (shard_elements of its map); empty when the unit has no such parameters.
  /// In the compute dtype: what gathers send.
  [[nodiscard]] Tensor parameters_of(int unit) const;
  [[nodiscard]] Tensor frozen_parameters_of(int unit) const;
  [[nodiscard]] Tensor gradients_of(int unit) const;

 private:
  const ShardMap& trainable_;
  const ShardMap& frozen_;
  DType compute_;
  Tensor parameters_, gradients_, compute_copy_, frozen_parameters_;
};

}  // namespace sft::parallel
