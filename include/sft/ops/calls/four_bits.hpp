// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "sft/core/four_bits.hpp"
#include "sft/ops/describe.hpp"
#include "sft/tensor/tensor.hpp"

namespace sft::ops {

/// out = the values of a rectangle of a matrix in 4 bits, whose rows are whole blocks: that of the code times the scale
/// of the block, in float32. The scale of a code is its value times the scale of its own block, rounded, plus the
/// offset.
struct ReadFourBits {
  static constexpr const char* name = "read_four_bits";
  Tensor out;           ///< (N, M) compute dtype; M is a multiple of four_bit_block
  ConstTensor records;  ///< (N * M / four_bit_block * record_bytes) uint8: its blocks, row by row
  FourBitForm form;
  /// (FourBitForm::num_nested) float32: of the whole matrix; empty where scales are not nested.
  ConstTensor nested;
  // Where blocks lie in the whole matrix; of nested scales.
  std::int64_t first_block = 0;  ///< index of the first one
  std::int64_t row_blocks = 0;   ///< how many a row of the whole matrix has

  template <class Visitor>
  void describe(Visitor& op) const {
    const std::int64_t own_row_blocks = out.shape[1] / four_bit_block;
    op.out("out", out, "N M", Types::any);
    op.require(out.shape[1] % four_bit_block == 0, "out has rows of no whole blocks");
    op.dim('B', out.shape[0] * own_row_blocks * form.record_bytes());
    op.in("records", records, "B", Types::uint8);
    op.in("nested", nested, "S", Types::float32, form.is_nested ? contiguous : optional);
    op.require(form.is_nested || nested.empty(), "nested is for nested scales");
    op.require(!form.is_nested || has_scales(own_row_blocks), "nested has no scale of some block");
    op.scalar("form.type", form.type);
    op.scalar("form.is_nested", form.is_nested);
    op.scalar("first_block", first_block);
    op.scalar("row_blocks", row_blocks);
  }

 private:
  [[nodiscard]] bool has_scales(std::int64_t own_row_blocks) const {
    const std::int64_t end = first_block + (out.shape[0] - 1) * row_blocks + own_row_blocks;
    return first_block >= 0 && row_blocks >= own_row_blocks && end <= (nested.num_elements() - 1) * nested_scale_block;
  }
};

}  // namespace sft::ops
