// SPDX-License-Identifier: Apache-2.0
#pragma once
// The arithmetic of cublasLtMatmul.

#include <cstddef>
#include <cstdint>

#include "problem.hpp"

namespace sft::emulation {

/// A checked product with its data.
struct Product {
  Problem problem;
  const void *alpha, *beta;  ///< of the scale type
  const void *a, *b, *c;
  void* d;
  void* workspace = nullptr;
  std::size_t workspace_bytes = 0;
  double host_alpha = 0.0, host_beta = 0.0;
  std::uint32_t delay_us = 0;  ///< that its algorithm takes longer

  /// With scalars in host memory: reads them now, as the caller may change them after the call.
  void read_host_scalars();
  /// As queued work: device memory is readable. Sums run in the compute type, in one order. C is not read where beta is
  /// 0. Both ends of the workspace are left with NaN.
  void run() const;
};

/// As queued work: writes NaN to both ends of the workspace, enough to find who else uses it, and less than its
/// megabytes.
void spoil_ends(void* workspace, std::size_t bytes);

}  // namespace sft::emulation
