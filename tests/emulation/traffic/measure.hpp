// SPDX-License-Identifier: Apache-2.0
#pragma once
// Runs an op on the emulated GPU and holds what its kernels ask of memory against what they should.

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>

#include "sft/ops/backend.hpp"

namespace sft::ops::testing {

/// A tensor in device memory, all of it 1; it lives to the end of the test case, whose fixture is FreesTensors.
[[nodiscard]] Tensor make(DType dtype, std::initializer_list<std::int64_t> shape);
/// (count) of int32: 0, 1, 2...
[[nodiscard]] Tensor make_ids(std::int64_t count);
struct FreesTensors {
  ~FreesTensors();
};

/// What the kernels of an op may ask for, in bytes of device memory.
struct Budget {
  std::int64_t formula;  ///< what the op has to move (benchmarks/op_bytes.hpp)
  /// What else its kernels move, an ideal L2 cache within each: together it is what is counted, to the byte.
  std::int64_t others = 0;
  /// What instructions ask the caches for again: what several of them read, as the weight of a norm, and what they
  /// leave unused of sectors. A sixteenth of all may come to it: a sector for a number of the row, its root or its
  /// token, beside 16 bytes of each lane.
  std::int64_t asked_again = 0;
  std::int64_t bank_conflicts = 0;   ///< passes over shared memory that they cost
  bool is_memory_bound = true;       ///< then it moves at most 1.25 times its formula
  std::int64_t matrix_products = 0;  ///< mma.sync of warps
  std::int64_t matrix_loads = 0;     ///< ldmatrix of warps
};

/// Runs `op`, checks its kernels against `budget`, and keeps a row of the table, which is printed at the end.
void check_traffic(const std::string& op, const std::string& shape, const Budget& budget,
                   const std::function<void(Backend&)>& run);

}  // namespace sft::ops::testing
