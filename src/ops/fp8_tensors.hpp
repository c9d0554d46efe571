// SPDX-License-Identifier: Apache-2.0
#pragma once
// From the arguments of the ops on matrices of 8-bit floats to those of the kernels. Broken contracts throw
// std::logic_error.

#include "ops/fp8_arguments.hpp"
#include "ops/tensor_arguments.hpp"
#include "sft/ops/fp8.hpp"

namespace sft::ops {

/// The pointers of a matrix of 8-bit floats; checks dtypes and sizes too, as ops::Fp8Matrix says.
template <class AnyTensor>
[[nodiscard]] auto fp8_view_of(const BasicFp8Matrix<AnyTensor>& x) {
  using Byte = typename AnyTensor::template Element<std::uint8_t>;
  using Float = typename AnyTensor::template Element<float>;
  SFT_ENSURE(x.codes.dtype == DType::uint8 && x.codes.ndim == 2, "ops: a matrix of uint8 expected");
  SFT_ENSURE(x.codes.is_contiguous() || x.codes.shape[0] <= 1, "ops: contiguous tensor expected");
  const std::int64_t rows = x.codes.shape[0], columns = x.codes.shape[1];
  const std::int64_t scale_columns = Fp8Tiles::count(columns, x.tiles.columns);
  SFT_ENSURE(x.scales.num_elements() == Fp8Tiles::count(rows, x.tiles.rows) * scale_columns, "ops: a tile has a scale");
  return BasicFp8View<Byte, Float>{.codes = x.codes.template as<std::uint8_t>(),
                                   .scales = floats_of(x.scales),
                                   .rows = rows,
                                   .columns = columns,
                                   .tile_rows = x.tiles.rows == 0 ? rows : x.tiles.rows,
                                   .tile_columns = x.tiles.columns == 0 ? columns : x.tiles.columns,
                                   .scale_columns = scale_columns,
                                   .is_e5m2 = x.format == Fp8Format::e5m2};
}

/// What is rounded; checks that it has the size of what comes of it.
[[nodiscard]] inline ConstView fp8_source_of(const RoundToFp8& round) {
  SFT_ENSURE(round.in.ndim == 2 && round.in.shape == round.out.codes.shape, "ops: an element has a code");
  return view_of(round.in);
}

}  // namespace sft::ops
