// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a rank stores of the model between two uses: its rank shard of the parameters, of their gradients and, where the
// compute dtype is bf16, of the copy that gathers send. Pure: planning lays it out without a device.

#include "sft/device/arena.hpp"
#include "sft/parallel/shard_map.hpp"
#include "sft/tensor/tensor.hpp"

namespace sft::parallel {

class UnitStorage {
 public:
  /// `shard_map` outlives it. `compute`: dtype of gathered parameters, float32 or bf16.
  UnitStorage(const ShardMap& shard_map, DType compute) : shard_map_(shard_map), compute_(compute) {}

  /// Takes the memory from the arenas; call with sizing arenas, then with real ones.
  void lay_out(device::Arena& parameters, device::Arena& gradients);

  [[nodiscard]] const ShardMap& shard_map() const { return shard_map_; }
  [[nodiscard]] DType compute() const { return compute_; }

  // The rank shard (rank_shard_elements): master weights and gradient sums, float32.
  [[nodiscard]] Tensor parameters() const { return parameters_; }
  [[nodiscard]] Tensor gradients() const { return gradients_; }
  /// The bf16 copy of the parameters; empty with float32.
  [[nodiscard]] Tensor compute_copy() const { return compute_copy_; }

  // The part of one unit (shard_elements).
  /// In the compute dtype: what gathers send.
  [[nodiscard]] Tensor parameters_of(int unit) const;
  [[nodiscard]] Tensor gradients_of(int unit) const;

 private:
  [[nodiscard]] Tensor part(const Tensor& rank_shard, int unit) const;

  const ShardMap& shard_map_;
  DType compute_;
  Tensor parameters_, gradients_, compute_copy_;
};

}  // namespace sft::parallel
