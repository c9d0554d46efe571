// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which algorithm a product gets.

#include <optional>

#include "problem.hpp"

namespace sft::emulation {

/// What the descriptors say together; nothing where one of them is none.
[[nodiscard]] std::optional<Problem> problem_of(cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,
                                                cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
                                                cublasLtMatrixLayout_t d);

/// Fills `algo` for the problem within the preference's limits.
[[nodiscard]] Verdict choose(const Problem& problem, const Preference& preference, Algo& algo);

}  // namespace sft::emulation
