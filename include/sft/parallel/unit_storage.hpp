// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a rank stores of the model between two uses. Pure: planning lays it out without a device.
//
//   parameter   parameters                                         gradients   moments (optim)
//   trainable   as MasterWeights says; float32 with a bf16 copy,   float32     float32 or bf16
//               or once, in the compute dtype
//   frozen      once, in the compute dtype                         none        none
//
// The arenas decide in which memory space each of them lies.

#include "sft/device/arena.hpp"
#include "sft/parallel/shard_map.hpp"
#include "sft/tensor/tensor.hpp"

namespace sft::parallel {

/// The float32 trainable parameters that the optimizer updates, from which those that are computed with follow.
enum class MasterWeights {
  in_memory,
  in_file,  ///< the optimizer keeps them (optim::Optimizer): here is their bf16 copy alone
  none,     ///< it updates those that are computed with
};

class UnitStorage {
 public:
  /// The maps of the trainable and of the frozen parameters, with the same units, outlive it. `compute`: dtype of
  /// gathered parameters, float32 or bf16; in_file goes with bf16 alone.
  UnitStorage(const ShardMap& trainable, const ShardMap& frozen, DType compute,
              MasterWeights master = MasterWeights::in_memory)
      : trainable_(trainable), frozen_(frozen), compute_(compute), master_(master) {}

  /// Takes the memory from the arenas: `master` for float32 parameters that have a copy, `parameters` for what is
  /// computed with. Call with sizing arenas, then with real ones.
  void lay_out(device::Arena& master, device::Arena& parameters, device::Arena& gradients);

  [[nodiscard]] const ShardMap& trainable() const { return trainable_; }
  [[nodiscard]] const ShardMap& frozen() const { return frozen_; }
  [[nodiscard]] DType compute() const { return compute_; }

  // The trainable rank shard (rank_shard_elements).
  /// float32; with MasterWeights::none in the compute dtype, with in_file empty.
  [[nodiscard]] Tensor parameters() const { return parameters_; }
  /// Sums, float32.
  [[nodiscard]] Tensor gradients() const { return gradients_; }
  /// The bf16 copy of float32 parameters, which gathers send; empty where there is none.
  [[nodiscard]] Tensor compute_copy() const { return compute_copy_; }
  /// The frozen rank shard (rank_shard_elements), compute dtype.
  [[nodiscard]] Tensor frozen_parameters() const { return frozen_parameters_; }

  // The part of one unit (shard_elements of its map); empty when the unit has no such parameters.
  /// In the compute dtype: what gathers send.
  [[nodiscard]] Tensor parameters_of(UnitIndex unit) const;
  [[nodiscard]] Tensor frozen_parameters_of(UnitIndex unit) const;
  [[nodiscard]] Tensor gradients_of(UnitIndex unit) const;

 private:
  const ShardMap& trainable_;
  const ShardMap& frozen_;
  DType compute_;
  MasterWeights master_;
  Tensor parameters_, gradients_, compute_copy_, frozen_parameters_;
};

}  // namespace sft::parallel
