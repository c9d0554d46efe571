// SPDX-License-Identifier: Apache-2.0
// The functions of cuBLASLt that sft calls. Each goes on to the library itself, which is loaded at the first call: a
// program that links these needs no cuBLASLt until it uses a GPU.
#include <cublasLt.h>

#include <fmt/core.h>
#include <string>

#include "sft/core/on_demand_library.hpp"

namespace {

sft::OnDemandLibrary& library() {
  static sft::OnDemandLibrary opened(
      "cuBLASLt", {fmt::format("libcublasLt.so.{}", CUBLAS_VER_MAJOR), SFT_CUBLASLT_FILE},
      fmt::format("install it with CUDA {}, add its folder to LD_LIBRARY_PATH, or set [device] backend = cpu",
                  CUBLAS_VER_MAJOR));
  return opened;
}

}  // namespace

// The arguments of cuBLASLt's functions are handed on as they are.
#define SFT_FORWARD(name, parameters, arguments)                            \
  cublasStatus_t name parameters {                                          \
    static auto* const forward = library().function<decltype(name)>(#name); \
    return forward arguments;                                               \
  }

extern "C" {

SFT_FORWARD(cublasLtCreate, (cublasLtHandle_t * handle), (handle))
SFT_FORWARD(cublasLtDestroy, (cublasLtHandle_t handle), (handle))
SFT_FORWARD(cublasLtMatrixLayoutCreate,
            (cublasLtMatrixLayout_t * layout, cudaDataType type, uint64_t rows, uint64_t columns, int64_t stride),
            (layout, type, rows, columns, stride))
SFT_FORWARD(cublasLtMatrixLayoutDestroy, (cublasLtMatrixLayout_t layout), (layout))
SFT_FORWARD(cublasLtMatmulDescCreate,
            (cublasLtMatmulDesc_t * operation, cublasComputeType_t compute_type, cudaDataType_t scale_type),
            (operation, compute_type, scale_type))
SFT_FORWARD(cublasLtMatmulDescDestroy, (cublasLtMatmulDesc_t operation), (operation))
SFT_FORWARD(cublasLtMatmulDescSetAttribute,
            (cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t attribute, const void* value, size_t bytes),
            (operation, attribute, value, bytes))
SFT_FORWARD(cublasLtMatmulPreferenceCreate, (cublasLtMatmulPreference_t * preference), (preference))
SFT_FORWARD(cublasLtMatmulPreferenceDestroy, (cublasLtMatmulPreference_t preference), (preference))
SFT_FORWARD(cublasLtMatmulPreferenceSetAttribute,
            (cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute, const void* value,
             size_t bytes),
            (preference, attribute, value, bytes))
SFT_FORWARD(cublasLtMatmulAlgoGetHeuristic,
            (cublasLtHandle_t handle, cublasLtMatmulDesc_t operation, cublasLtMatrixLayout_t a,
             cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
             cublasLtMatmulPreference_t preference, int asked, cublasLtMatmulHeuristicResult_t results[], int* found),
            (handle, operation, a, b, c, d, preference, asked, results, found))
SFT_FORWARD(cublasLtMatmul,
            (cublasLtHandle_t handle, cublasLtMatmulDesc_t operation, const void* alpha, const void* a,
             cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout, const void* beta,
             const void* c, cublasLtMatrixLayout_t c_layout, void* d, cublasLtMatrixLayout_t d_layout,
             const cublasLtMatmulAlgo_t* algorithm, void* workspace, size_t workspace_bytes, cudaStream_t stream),
            (handle, operation, alpha, a, a_layout, b, b_layout, beta, c, c_layout, d, d_layout, algorithm, workspace,
             workspace_bytes, stream))

SFT_FORWARD(cublasLtMatmulAlgoCheck,
            (cublasLtHandle_t handle, cublasLtMatmulDesc_t operation, cublasLtMatrixLayout_t a,
             cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
             const cublasLtMatmulAlgo_t* algorithm, cublasLtMatmulHeuristicResult_t* result),
            (handle, operation, a, b, c, d, algorithm, result))

size_t cublasLtGetVersion() {
  static auto* const forward = library().function<decltype(cublasLtGetVersion)>("cublasLtGetVersion");
  return forward();
}

const char* cublasLtGetStatusString(cublasStatus_t status) {
  static auto* const forward = library().function<decltype(cublasLtGetStatusString)>("cublasLtGetStatusString");
  return forward(status);
}

}  // extern "C"
