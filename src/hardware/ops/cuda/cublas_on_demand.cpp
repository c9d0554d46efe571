// SPDX-License-Identifier: Apache-2.0
// The functions of cuBLAS that sft calls. Each goes on to the library itself, which is loaded at the first call: only
// products of experts need it, and a run without it has them one by one from cuBLASLt (ops/cuda/grouped_matmul.hpp).
#include "ops/cuda/cublas_calls.hpp"

#include <fmt/core.h>

#include "sft/core/on_demand_library.hpp"

namespace {

sft::OnDemandLibrary& library() {
  static sft::OnDemandLibrary opened(
      "cuBLAS", {fmt::format("libcublas.so.{}", CUBLAS_VER_MAJOR), SFT_CUBLAS_FILE},
      fmt::format("install it with CUDA {}, or add its folder to LD_LIBRARY_PATH", CUBLAS_VER_MAJOR));
  return opened;
}

}  // namespace

// The arguments of cuBLAS's functions are handed on as they are.
#define SFT_FORWARD(name, parameters, arguments)                            \
  cublasStatus_t name parameters {                                          \
    static auto* const forward = library().function<decltype(name)>(#name); \
    return forward arguments;                                               \
  }

extern "C" {

SFT_FORWARD(cublasCreate_v2, (cublasHandle_t * handle), (handle))
SFT_FORWARD(cublasDestroy_v2, (cublasHandle_t handle), (handle))
SFT_FORWARD(cublasSetStream_v2, (cublasHandle_t handle, cudaStream_t stream), (handle, stream))
SFT_FORWARD(cublasSetWorkspace_v2, (cublasHandle_t handle, void* workspace, size_t workspace_bytes),
            (handle, workspace, workspace_bytes))
SFT_FORWARD(cublasGemmGroupedBatchedEx,
            (cublasHandle_t handle, const cublasOperation_t transposes_a[], const cublasOperation_t transposes_b[],
             const int m[], const int n[], const int k[], const void* alpha, const void* const a[],
             cudaDataType_t a_type, const int lda[], const void* const b[], cudaDataType_t b_type, const int ldb[],
             const void* beta, void* const c[], cudaDataType_t c_type, const int ldc[], int num_groups,
             const int group_sizes[], cublasComputeType_t compute_type),
            (handle, transposes_a, transposes_b, m, n, k, alpha, a, a_type, lda, b, b_type, ldb, beta, c, c_type, ldc,
             num_groups, group_sizes, compute_type))

bool sft_find_grouped_gemm() {
  static const bool is_found = [] {
    (void)library().function<decltype(cublasGemmGroupedBatchedEx)>("cublasGemmGroupedBatchedEx");
    return true;
  }();
  return is_found;
}

}  // extern "C"
