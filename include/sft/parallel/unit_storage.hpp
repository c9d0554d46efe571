// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a rank stores of one part of all units between two uses. Pure: planning lays it out without a device.
//
//   tensor         dtype            there is one
//   parameters     Part::stored     unless they lie in a file
//   compute copy   Part::gathered   where the optimizer updates another dtype (Part::has_copy)
//   gradients      float32          where the part has them: for the whole run, or in slots that units use in turn
//   scales         float32          of matrices in 4 bits whose scales are nested: all of them on every rank that has
//                                   the expert, or of all else on every rank
//
// The arenas decide in which memory space each of them lies.

#include <cstdint>
#include <utility>
#include <vector>

#include "sft/device/arena.hpp"
#include "sft/parallel/part.hpp"
#include "sft/tensor/tensor.hpp"

namespace sft::parallel {

/// The number of a buffer that several units use in turn.
using SlotIndex = Index<struct Slot>;

class UnitStorage {
 public:
  explicit UnitStorage(Part part) : part_(std::move(part)) {}

  /// Takes the memory from the arenas: `master` for parameters that have a copy, `parameters` for what gathers send.
  /// Call with sizing arenas, then with real ones. `gradient_slots`: where the gradients of units lie in turn, each
  /// from the unit's backward pass to its step; null: they have memory of their own.
  void lay_out(device::Arena& master, device::Arena& parameters, device::Arena& gradients,
               const IndexedVector<UnitIndex, SlotIndex>* gradient_slots = nullptr);

  /// Takes the memory of nested scales, which ops read where it is; none where there are none. As lay_out.
  void lay_out_nested_scales(device::Arena& arena);

  [[nodiscard]] const Part& part() const { return part_; }
  [[nodiscard]] const ShardMap& shard_map() const { return part_.shard_map; }

  // The rank shard (rank_shard_elements).
  /// The parameters that are loaded, saved and updated, in Part::stored; empty where they lie in a file.
  [[nodiscard]] Tensor parameters() const { return parameters_; }
  /// Sums over micro-batches, float32; empty where the part has no gradient. Throws std::logic_error where units share
  /// memory for them.
  [[nodiscard]] Tensor gradients() const;
  /// Whether units share memory for their gradients.
  [[nodiscard]] bool shares_gradients() const { return shares_gradients_; }
  /// [begin, begin + count) of the gradients, of one unit.
  [[nodiscard]] Tensor gradients_at(std::int64_t begin, std::int64_t count) const;
  /// The copy in Part::gathered that gathers send; empty where these send the parameters themselves.
  [[nodiscard]] Tensor compute_copy() const { return compute_copy_; }

  /// Of the matrix `parameter` of a unit, in 4 bits with nested scales: what its blocks' records leave out
  /// (FourBitForm::num_nested), float32; empty where scales are not nested.
  [[nodiscard]] Tensor nested_scales(UnitIndex unit, int parameter) const;

  // The unit shard of one unit (shard_elements); empty when the unit has no parameters in this part.
  /// What gathers send, in Part::gathered.
  [[nodiscard]] Tensor parameters_of(UnitIndex unit) const;
  /// Its gradient; only where the part has them.
  [[nodiscard]] Tensor gradients_of(UnitIndex unit) const;

 private:
  void lay_out_gradients(device::Arena& arena, const IndexedVector<UnitIndex, SlotIndex>* slots);

  Part part_;
  Tensor parameters_, gradients_, compute_copy_, nested_;
  bool shares_gradients_ = false;
  IndexedVector<UnitIndex, Tensor> gradients_of_;
  IndexedVector<UnitIndex, std::vector<std::int64_t>> first_nested_;  ///< of the matrices, then their end
};

/// The storage of each part of a model. Moving the list leaves the parts, and what refers to them, where they are.
using StoredParts = IndexedVector<PartIndex, UnitStorage>;
/// Storage that is yet to be laid out.
[[nodiscard]] StoredParts storage_of(IndexedVector<PartIndex, Part> parts);

}  // namespace sft::parallel
