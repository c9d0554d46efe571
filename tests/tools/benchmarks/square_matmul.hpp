// SPDX-License-Identifier: Apache-2.0
#pragma once
// oneDNN's own matrix product: the yardstick of every other rate.

#include <memory>

#include "sft/core/dtype.hpp"

namespace sft::bench {

/// The product of two square matrices, with the threads of this process; in float32 where oneDNN has none of `dtype`.
class SquareMatmul {
 public:
  SquareMatmul(int size, DType dtype);
  ~SquareMatmul();

  void run();
  /// Of one run.
  [[nodiscard]] double flops() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sft::bench
