// SPDX-License-Identifier: Apache-2.0
#pragma once
// Numbers of a rank shard that do not lie in memory, such as moments in a file: whoever loads or saves them reads and
// writes parts.

#include <cstdint>

#include "sft/tensor/tensor.hpp"

namespace sft::transfer {

/// Cheapest in ascending order of elements. Errors of the file are data Errors that name it. Local.
class OffloadedShard {
 public:
  virtual ~OffloadedShard() = default;
  [[nodiscard]] virtual DType dtype() const = 0;
  /// Elements of the rank shard.
  [[nodiscard]] virtual std::int64_t num_elements() const = 0;
  /// The elements from `begin` on, as many as `values` holds: memory of the device or the host, 1-D, of dtype(). The
  /// host waits for it, and for what ops do with `values` before.
  virtual void read(std::int64_t begin, const Tensor& values) = 0;
  virtual void write(std::int64_t begin, const ConstTensor& values) = 0;
  /// Makes all of them zero.
  virtual void clear() = 0;
};

}  // namespace sft::transfer
