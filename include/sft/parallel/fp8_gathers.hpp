// SPDX-License-Identifier: Apache-2.0
#pragma once
// Gathers of parameters as 8-bit floats (Part::in_fp8): each rank rounds its own shard, with the scales of whole
// matrices or blocks, and sends a byte a number. What arrives is what rounding the gathered matrix would have given,
// code by code and scale by scale: a scale is a power of two that the largest number decides, so that of a matrix or
// block is the largest of its parts' (as torchao's precompute_float8_dynamic_scale_for_fsdp has it, which asks once a
// step for all matrices; here each unit asks when it is gathered for the first time behind its update, so that no unit
// waits for others'). So borders of shards may cut blocks anywhere; and where ranks ask, they learn each other's
// scales.

#include <cstdint>
#include <memory>
#include <vector>

#include "sft/comm/collectives.hpp"
#include "sft/device/device.hpp"
#include "sft/mesh/groups.hpp"
#include "sft/ops/backend.hpp"
#include "sft/parallel/unit_buffers.hpp"

namespace sft::parallel {

/// Neighbouring elements of a unit flat that are one matrix to a product: parameters that ops use as one, but each
/// expert's apart.
struct UnitMatrix {
  std::int64_t begin;         ///< of its elements, row by row
  std::int64_t lines, terms;  ///< rows and columns
  int first;                  ///< number of the first of its parameters among all of the unit

  [[nodiscard]] std::int64_t num_scales(ops::Fp8Tiles tiles) const {
    const auto [rows, columns] = ops::fp8_scale_shape(tiles, lines, terms);
    return rows * columns;
  }
};
/// Those of the unit's parameters that this rank has elements of, ascending. Pure.
[[nodiscard]] std::vector<UnitMatrix> matrices_of(const Unit& unit);

class Fp8Gathers {
 public:
  /// All references outlive it. Local.
  Fp8Gathers(const StoredParts& storage, const UnitBuffers& buffers, const mesh::Groups& groups, device::Device& device,
             ops::Backend& backend, comm::Collectives& collectives);

  /// The unit's parameters were written: its scales are no longer theirs.
  void parameters_written(UnitIndex unit) { has_scales_[unit] = false; }
  /// Writes UnitBuffers::codes of the unit, and first its scales where they are to be found, behind `written`; what is
  /// queued on `gather_stream` from now on waits for it. Nothing where no part of the unit is in fp8. Runs on the
  /// stream of the backend. Where scales are to be found it is collective over PartGroups::shards and, for those of
  /// whole matrices, tp: each rank of tp has blocks of its own.
  void round(UnitIndex unit, device::Event& written, device::Stream& gather_stream);
  /// What is queued on `gather_stream` so far sends the codes of the unit: behind it their memory is free.
  void sent(UnitIndex unit, device::Stream& gather_stream);

  /// The scales of the matrices of a group of parameters, float32: a row for each, of experts those of this rank.
  [[nodiscard]] Tensor scales(const ParameterGroup& group) const;

 private:
  [[nodiscard]] bool has_codes(PartIndex part, UnitIndex unit) const;
  [[nodiscard]] bool has_codes(UnitIndex unit) const;
  void find_scales(PartIndex part, UnitIndex unit);
  /// What this rank's shard has of the matrices of the unit.
  [[nodiscard]] std::vector<ops::Fp8Run> runs_of(PartIndex part, UnitIndex unit) const;

  const StoredParts& storage_;
  const UnitBuffers& buffers_;
  const mesh::Groups& groups_;
  device::Device& device_;
  ops::Backend& backend_;
  comm::Collectives& collectives_;
  IndexedVector<UnitIndex, bool> has_scales_;
  std::unique_ptr<device::Event> rounded_, sent_;
};

}  // namespace sft::parallel
