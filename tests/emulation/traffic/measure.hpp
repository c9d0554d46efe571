// SPDX-License-Identifier: Apache-2.0
#pragma once
// Runs an op on the emulated GPU and holds what its kernels ask of memory against what they should.

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

#include "runtime/traffic.hpp"
#include "sft/ops/backend.hpp"

namespace sft::ops::testing {

/// A tensor in device memory, all of it 1; it lives until free_tensors().
[[nodiscard]] Tensor make(DType dtype, std::initializer_list<std::int64_t> shape);
/// (count) of int32: 0, 1, 2...
[[nodiscard]] Tensor make_ids(std::int64_t count);

void free_tensors();

/// What an op may move.
struct Budget {
  /// Bytes of device memory by the op's formula, and what else its kernels move, to the byte.
  std::int64_t bytes, others = 0;
  /// Sectors asked for, times 32, over these bytes: more than 1 where instructions leave parts of sectors unused, or
  /// where several ask for the same ones, as for the weights of a norm.
  double asked = 1.0;
  /// Passes over the banks of shared memory over the least.
  double shared = 1.0;
};

/// Runs `op`, checks its kernels against `budget`, and keeps a row for the table.
void check_traffic(const std::string& op, const std::string& shape, const Budget& budget,
                   const std::function<void(Backend&)>& run);

}  // namespace sft::ops::testing
