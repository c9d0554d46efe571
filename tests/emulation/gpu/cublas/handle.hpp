// SPDX-License-Identifier: Apache-2.0
#pragma once
// Handles of the emulated cuBLAS.

#include <cublas_v2.h>

#include <cstddef>
#include <string>

extern "C" {

/// Headers before cuBLAS 12.5 do not declare it.
cublasStatus_t cublasGemmGroupedBatchedEx(cublasHandle_t handle, const cublasOperation_t transposes_a[],
                                          const cublasOperation_t transposes_b[], const int m[], const int n[],
                                          const int k[], const void* alpha, const void* const a[],
                                          cudaDataType_t a_type, const int lda[], const void* const b[],
                                          cudaDataType_t b_type, const int ldb[], const void* beta, void* const c[],
                                          cudaDataType_t c_type, const int ldc[], int num_groups,
                                          const int group_sizes[], cublasComputeType_t compute_type);

}  // extern "C"

namespace sft::emulation {

/// What a handle is set to. Without a workspace of the caller's the library has one of its own.
struct CublasHandle {
  int device = 0;
  cudaStream_t stream = nullptr;
  void* workspace = nullptr;
  std::size_t workspace_bytes = 0;
  bool is_alive = true;
};

/// The handle as it is, or nullptr where cublasCreate has not made it or cublasDestroy has ended it.
[[nodiscard]] CublasHandle* find(cublasHandle_t handle);

/// Why this process's last call was refused; empty when it was not.
[[nodiscard]] std::string last_cublas_refusal();
/// Keeps the reason and returns the status.
cublasStatus_t refuse(cublasStatus_t status, const std::string& why);

}  // namespace sft::emulation
