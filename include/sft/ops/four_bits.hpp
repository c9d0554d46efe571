// SPDX-License-Identifier: Apache-2.0
#pragma once
// Arguments of the op that makes numbers of a matrix in 4 bits.

#include <cstdint>

#include "sft/core/four_bits.hpp"
#include "sft/tensor/tensor.hpp"

namespace sft::ops {

/// out = the numbers of a rectangle of a matrix in 4 bits, whose rows are whole blocks: that of the code times the
/// scale of the block, in float32. The scale of a code is its number times the scale of its own block, rounded, plus
/// the offset.
struct ReadFourBits {
  Tensor out;           ///< (N, M) compute dtype; M is a multiple of four_bit_block
  ConstTensor records;  ///< (N * M / four_bit_block * record_bytes) uint8: its blocks, row by row
  FourBitForm form;
  /// (FourBitForm::num_nested) float32: of the whole matrix; empty where scales are not nested.
  ConstTensor nested;
  // Where blocks lie in the whole matrix; of nested scales.
  std::int64_t first_block = 0;  ///< the number of the first one
  std::int64_t row_blocks = 0;   ///< how many a row of the whole matrix has
};

}  // namespace sft::ops
