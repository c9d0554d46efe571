// SPDX-License-Identifier: Apache-2.0
#include "ops/cuda/cublaslt_plan.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <optional>
#include <sstream>
#include <utility>

#include "sft/core/ensure.hpp"
#include "sft/core/gpu_launches.hpp"

namespace sft::ops::cuda {
namespace {

/// The inverse of CublasltPlan::algorithm: the library's numbers, and whether the bias is part of the product. Nothing
/// for other text.
std::optional<std::pair<cublasLtMatmulAlgo_t, bool>> algorithm_of(const std::string& text) {
  std::istringstream words(text);
  std::string kind;
  cublasLtMatmulAlgo_t algorithm{};
  words >> kind >> std::hex;
  for (auto& number : algorithm.data) words >> number;
  if (!words || (kind != "bias" && kind != "plain")) return std::nullopt;
  return std::pair(algorithm, kind == "bias");
}

}  // namespace

std::vector<cublasLtMatmulHeuristicResult_t> CublasltPlan::propose(cublasLtHandle_t library,
                                                                   const Preference& preference, const void* bias,
                                                                   int most, cublasStatus_t* status) {
  operation_.set_bias(bias);
  std::vector<cublasLtMatmulHeuristicResult_t> results(static_cast<std::size_t>(most));
  int count = 0;
  const cublasStatus_t returned =
      cublasLtMatmulAlgoGetHeuristic(library, operation_.get(), b_.get(), a_.get(), c_.get(), c_.get(),
                                     preference.get(), most, results.data(), &count);
  if (status != nullptr) *status = returned;
  results.resize(returned == CUBLAS_STATUS_SUCCESS ? static_cast<std::size_t>(count) : 0);
  std::erase_if(results, [](const auto& result) { return result.state != CUBLAS_STATUS_SUCCESS; });
  return results;
}

void CublasltPlan::take(const cublasLtMatmulHeuristicResult_t& result, bool has_bias) {
  has_bias_ = has_bias;
  algorithm_ = result.algo;
  workspace_bytes_ = result.workspaceSize;
}

bool CublasltPlan::take_if_fits(cublasLtHandle_t library, const std::string& text, const void* bias,
                                Workspace workspace) {
  const auto named = algorithm_of(text);
  if (!named) return false;
  const auto& [algorithm, names_bias] = *named;
  const bool has_bias = names_bias && bias != nullptr;
  operation_.set_bias(has_bias ? bias : nullptr);
  cublasLtMatmulHeuristicResult_t result{};
  const cublasStatus_t status =
      cublasLtMatmulAlgoCheck(library, operation_.get(), b_.get(), a_.get(), c_.get(), c_.get(), &algorithm, &result);
  if (status != CUBLAS_STATUS_SUCCESS || result.state != CUBLAS_STATUS_SUCCESS) return false;
  if (result.workspaceSize > workspace.num_bytes) return false;
  result.algo = algorithm;
  take(result, has_bias);
  return true;
}

std::string CublasltPlan::algorithm() const {
  return fmt::format("{} {:016x}", has_bias_ ? "bias" : "plain", fmt::join(algorithm_.data, " "));
}

void CublasltPlan::multiply(cublasLtHandle_t library, const PlanOperands& operands, Workspace workspace,
                            cudaStream_t stream) const {
  SFT_ENSURE(workspace_bytes_ <= workspace.num_bytes, "matmul: the workspace is no smaller than before");
  const float one = 1.0F, beta = operands.accumulate ? 1.0F : 0.0F;
  note_launch("cublasLtMatmul", stream);
  check(cublasLtMatmul(library, operation_.get(), &one, operands.b, b_.get(), operands.a, a_.get(), &beta, operands.c,
                       c_.get(), operands.c, c_.get(), &algorithm_, workspace.data, workspace_bytes_, stream),
        "cublasLtMatmul");
}

}  // namespace sft::ops::cuda
