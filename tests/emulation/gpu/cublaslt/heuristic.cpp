// SPDX-License-Identifier: Apache-2.0
// Choosing an algorithm. What comes back needs all that the query promises: the alignments, and some of the workspace.
// With SFT_EMULATED_FASTEST_MATMUL=N, from 0, a proposal takes a millisecond longer for each place between it and the
// Nth.

#include "algo.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "handle.hpp"
#include "runtime/stream_queue.hpp"

namespace sft::emulation {

namespace {

constexpr std::uint32_t max_alignment_bytes = 256, max_bias_alignment_bytes = 16;
constexpr int most_proposals = 5;

std::uint32_t delay_us_of(int proposal) {
  const char* fastest = std::getenv("SFT_EMULATED_FASTEST_MATMUL");
  return fastest == nullptr ? 0 : 1000 * static_cast<std::uint32_t>(std::abs(std::atoi(fastest) - proposal));
}

}  // namespace

std::optional<Problem> problem_of(cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                  cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d) {
  const auto* inner = inside<MatmulDesc>(desc);
  const auto *a_layout = inside<Layout>(a), *b_layout = inside<Layout>(b), *c_layout = inside<Layout>(c),
             *d_layout = inside<Layout>(d);
  if (inner == nullptr || a_layout == nullptr || b_layout == nullptr || c_layout == nullptr || d_layout == nullptr) {
    return std::nullopt;
  }
  return Problem{*inner, *a_layout, *b_layout, *c_layout, *d_layout};
}

Verdict choose(const Problem& problem, const Preference& preference, Algo& algo) {
  Verdict verdict = judge(problem);
  if (verdict.status != CUBLAS_STATUS_SUCCESS) return verdict;
  algo = Algo{.bias_alignment_bytes = alignment_of(problem.desc.bias, max_bias_alignment_bytes),
              .problem = problem.hash(),
              // A quarter, a half, three quarters or all of what it may take, and some algorithms need none.
              .workspace_bytes = preference.max_workspace_bytes / 4 * random_below(5),
              .alignment_bytes = {},
              .delay_us = 0};
  const Layout* layouts[] = {&problem.a, &problem.b, &problem.c, &problem.d};
  for (int i = 0; i < 4; ++i) {
    algo.alignment_bytes[i] = std::min(preference.min_alignment_bytes[i], max_alignment_bytes);
    if (algo.alignment_bytes[i] < size_of(layouts[i]->type)) {
      return {CUBLAS_STATUS_NOT_SUPPORTED, "a matrix is not even aligned to its elements"};
    }
  }
  return {};
}

}  // namespace sft::emulation

using namespace sft::emulation;

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int num_requested,
                                              cublasLtMatmulHeuristicResult_t results[], int* num_returned) {
  if (!is_alive(handle)) return CUBLAS_STATUS_NOT_INITIALIZED;
  const std::optional<Problem> problem = problem_of(desc, a, b, c, d);
  const auto* wishes = inside<Preference>(preference);
  if (!problem || wishes == nullptr || num_requested <= 0 || results == nullptr || num_returned == nullptr) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  *num_returned = 0;
  if (wishes->search_mode != CUBLASLT_SEARCH_BEST_FIT) return CUBLAS_STATUS_NOT_SUPPORTED;
  for (int i = 0; i < std::min(num_requested, most_proposals); ++i) {
    Algo algo{};
    const Verdict verdict = choose(*problem, *wishes, algo);
    if (verdict.status != CUBLAS_STATUS_SUCCESS) return verdict.status;
    algo.delay_us = delay_us_of(i);
    results[i] = {};
    std::memcpy(&results[i].algo, &algo, sizeof algo);
    results[i].workspaceSize = algo.workspace_bytes;
    results[i].state = CUBLAS_STATUS_SUCCESS;
    results[i].wavesCount = 1.0f;
    ++*num_returned;
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,
                                       cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                       const cublasLtMatmulAlgo_t* algo, cublasLtMatmulHeuristicResult_t* result) {
  if (!is_alive(handle)) return CUBLAS_STATUS_NOT_INITIALIZED;
  const std::optional<Problem> problem = problem_of(desc, a, b, c, d);
  const auto* chosen = inside<Algo>(algo);
  if (!problem || chosen == nullptr || result == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  const Verdict verdict = judge(*problem);
  if (verdict.status != CUBLAS_STATUS_SUCCESS) return verdict.status;
  if (chosen->problem != problem->hash()) return CUBLAS_STATUS_NOT_SUPPORTED;
  result->algo = *algo;
  result->workspaceSize = chosen->workspace_bytes;
  result->state = CUBLAS_STATUS_SUCCESS;
  result->wavesCount = 1.0f;
  return CUBLAS_STATUS_SUCCESS;
}
