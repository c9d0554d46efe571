// SPDX-License-Identifier: Apache-2.0
#pragma once
// The products of many experts: small ones side by side, each on one thread; large ones one after the other, each on
// all threads.

#include <cstdint>
#include <memory>
#include <vector>

#include "ops/cpu/matmul.hpp"

namespace sft::ops::cpu {

/// Not thread-safe. Experts have any numbers of rows, and machine code of products is for one of them: those that have
/// it run in pieces of least_piece_rows times powers of two, and what is left, so that few kinds are made.
class GroupedMatmulEngine {
 public:
  static constexpr std::int64_t least_piece_rows = 16;

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
