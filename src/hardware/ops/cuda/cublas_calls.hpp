// SPDX-License-Identifier: Apache-2.0
#pragma once
// What is called of cuBLAS, which is another library than cuBLASLt.

#include <cublas_v2.h>

extern "C" {

/// C_i = alpha_i op(A_i) op(B_i) + beta_i C_i for groups i of equal products, column-major. Sizes, leading dims, alpha
/// and beta lie in host memory and are read before it returns; the arrays of pointers a, b and c lie in device memory.
/// cuBLAS 12.5 and newer have it; the headers of older ones do not declare it.
cublasStatus_t cublasGemmGroupedBatchedEx(cublasHandle_t handle, const cublasOperation_t transposes_a[],
                                          const cublasOperation_t transposes_b[], const int m[], const int n[],
                                          const int k[], const void* alpha, const void* const a[],
                                          cudaDataType_t a_type, const int lda[], const void* const b[],
                                          cudaDataType_t b_type, const int ldb[], const void* beta, void* const c[],
                                          cudaDataType_t c_type, const int ldc[], int num_groups,
                                          const int group_sizes[], cublasComputeType_t compute_type);

/// True. Throws an Error where cuBLAS cannot be loaded or is too old for cublasGemmGroupedBatchedEx.
bool sft_find_grouped_gemm();

}  // extern "C"
