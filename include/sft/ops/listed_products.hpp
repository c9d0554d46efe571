// SPDX-License-Identifier: Apache-2.0
#pragma once
// The matrix products of a model, for which algorithms are measured.

#include <cstddef>
#include <vector>

#include "sft/ops/backend.hpp"

namespace sft::ops {

/// Each kind once, over addresses that must not be used.
struct ListedProducts {
  std::vector<Matmul> plain;      ///< cut as a GPU's library needs them
  std::vector<Fp8Matmul> in_fp8;  ///< whole

  [[nodiscard]] std::size_t size() const { return plain.size() + in_fp8.size(); }
};

}  // namespace sft::ops
