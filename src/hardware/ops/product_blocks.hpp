// SPDX-License-Identifier: Apache-2.0
#pragma once
// A product too large for a library's 32-bit indices, as products of blocks.

#include <cstdint>
#include <functional>

#include "sft/ops/backend.hpp"

namespace sft::ops {

/// What a library can index in one product. The defaults are cuBLASLt's: a matrix that spans 2^31 elements or more
/// fails or gives wrong numbers (github.com/rapidsai/raft/issues/3097), and so do more rows or columns of the result
/// than its grids count (github.com/pytorch/pytorch/issues/82922).
struct ProductLimits {
  std::int64_t max_span =
      (std::int64_t{1} << 31) - 1;  ///< elements from the first of a matrix to its last, gaps included
  std::int64_t max_rows = std::int64_t{65'535} * 32;  ///< rows and columns of c
};

/// The most rows and columns of c, and terms of its sums, that one product may have.
struct ProductBlock {
  std::int64_t m, n, k;
};

/// The largest block, but as even as the parts can be in multiples of 128 rows, so that there are few shapes and the
/// alignments are those of the whole. c and both operands of a product that has no empty dim and that fits are one
/// block. Throws std::logic_error where one row alone is beyond the limits.
[[nodiscard]] ProductBlock block_of(const Matmul& product, const ProductLimits& limits);

/// Calls `run` for each block, in order. An element of c is the sum of the same terms as without blocks. Cuts of rows
/// and columns leave the order of its terms to `run`: the bits are the same where that does not depend on the shape,
/// but a library may choose another algorithm for a block. Where k is cut, sums of blocks are added up in c, which has
/// to be float32, one after the other: another order than that of one product, so the last digits differ from its. The
/// bias goes with the first of them. A product within the limits is one call with the product itself.
void for_each_block(const Matmul& product, const ProductLimits& limits, const std::function<void(const Matmul&)>& run);

}  // namespace sft::ops
