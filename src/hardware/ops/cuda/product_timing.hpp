// SPDX-License-Identifier: Apache-2.0
#pragma once
// How long a product takes by the algorithms that cuBLASLt proposes for it.

#include <cublasLt.h>

#include <functional>
#include <string>

#include "ops/cuda/cublaslt_plan.hpp"

namespace sft::ops::cuda {

/// By what the heuristic puts first, and by what is fastest of what it proposes, seconds; and what MatmulAlgorithms
/// names the latter by.
struct ProductTiming {
  double first_s = 0.0, fastest_s = 0.0;
  std::string algorithm;
};

/// `plan` has what the heuristic puts first for `preference` and `bias`, null: none. `run` queues the product on
/// `stream` as `plan` has it. The other proposals have to be faster by least_gain. Waits for the stream.
[[nodiscard]] ProductTiming time_proposals(CublasltPlan& plan, cublasLtHandle_t library, const Preference& preference,
                                           const void* bias, const std::function<void()>& run, cudaStream_t stream);
inline constexpr double least_gain = 0.02;  ///< more than the clock of a warm GPU wavers from run to run

}  // namespace sft::ops::cuda
