// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a rank does in a collective beside sending: copies, and sums of what other ranks sent. Whoever owns the memory
// does it, the host or a GPU; every implementation gives the same bits.

#include <cstddef>
#include <cstdint>
#include <memory>

#include "comm/contributions.hpp"
#include "sft/comm/collectives.hpp"
#include "sft/core/dtype.hpp"

namespace sft::comm {

/// All is done when a call returns.
class LocalWork {
 public:
  virtual ~LocalWork() = default;

  /// Between regions that do not overlap.
  virtual void copy(std::byte* to, const std::byte* from, std::size_t bytes) = 0;
  /// out[i] = part 0 op part 1 op ..., in rank order from left to right; float32 or float64. `out` may be one of the
  /// parts.
  virtual void reduce(void* out, const Contributions& parts, std::int64_t num_elements, DType dtype, ReduceOp op) = 0;
  /// out[i] += part 0 + part 1 + ..., float32; the parts are added up first.
  virtual void add_sum(float* out, const Contributions& parts, std::int64_t num_elements) = 0;

  // Numbers that travel as bf16. Neither overlaps what it reads.
  /// to[i] = from[i], rounded to the nearest bf16.
  virtual void round_to_bf16(std::byte* to, const float* from, std::int64_t num_elements) = 0;
  /// out[i] = part 0 + part 1 + ..., of bf16 parts, added up in float32; with `adds`, out[i] += that.
  virtual void sum_bf16(float* out, const Contributions& parts, std::int64_t num_elements, bool adds) = 0;
};

/// On host memory, by all threads of this rank.
[[nodiscard]] std::unique_ptr<LocalWork> make_host_work();

}  // namespace sft::comm
