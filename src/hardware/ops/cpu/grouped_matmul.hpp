// SPDX-License-Identifier: Apache-2.0
#pragma once
// The products of many experts: small ones side by side, each on one thread; large ones one after the other, each on
// all threads.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "ops/cpu/matmul.hpp"

namespace sft::ops::cpu {

/// Shapes whose machine code each of several threads keeps that take products side by side.
[[nodiscard]] constexpr std::int64_t max_kept_of_thread(int num_threads) {
  return std::max<std::int64_t>(max_kept_products / num_threads, 1);
}

/// Not thread-safe. Products that have machine code of their own run in pieces (row_pieces.hpp).
class GroupedMatmulEngine {
 public:
  /// With the kernels of `isa`.
  explicit GroupedMatmulEngine(Isa isa) : isa_(isa) {}

  /// All `products`, of which none writes what another reads or writes; those with no rows add nothing. `all_threads`
  /// is the engine that single products run on. `workspace` is scratch for the duration of the call.
  void run(const std::vector<Matmul>& products, MatmulEngine& all_threads, Tensor workspace);

 private:
  Isa isa_;
  std::vector<std::unique_ptr<MatmulEngine>> of_thread_;
};

}  // namespace sft::ops::cpu
