// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>

namespace sft::ops {

/// Which random bits round an element to bf16: x becomes one of its two neighbours, the nearer one the more likely, so
/// that x is the mean of the outcomes, and what bf16 holds stays as it is (Croci et al. 2022). The bits are drawn from
/// `key` and the element's number in the logical tensor alone, so a slice rounds alike on any mesh.
struct StochasticRounding {
  std::uint64_t key = 0;         ///< of the tensor and the step; well mixed, the last bit does not count
  std::int64_t first_index = 0;  ///< number, in the logical tensor, of the rectangle's first element
  // Element i of the call is number begin + i, row-major, of a rectangle with rows of num_columns elements, which lie
  // row_stride apart in the logical tensor.
  std::int64_t num_columns = std::numeric_limits<std::int64_t>::max(), row_stride = 0, begin = 0;
};

}  // namespace sft::ops
