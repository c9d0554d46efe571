// SPDX-License-Identifier: Apache-2.0
#pragma once
// What calls of cuBLASLt and cuBLAS have in common.

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <fmt/core.h>
#include <cstdint>

#include "sft/core/ensure.hpp"
#include "sft/core/error.hpp"
#include "sft/core/gpu_launches.hpp"
#include "sft/tensor/tensor.hpp"

namespace sft::ops::cuda {

inline void check(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  const cudaError_t earlier = cudaStreamQuery(nullptr);
  throw_if_of_a_kernel(earlier, cudaGetErrorString(earlier));
  throw Error(ExitStatus::failure, fmt::format("{} failed", call), cublasLtGetStatusString(status),
              "look for an earlier message of the GPU, and check it with nvidia-smi");
}

inline void check(cudaError_t status, const char* call) {
  if (status == cudaSuccess) return;
  throw_if_of_a_kernel(status, cudaGetErrorString(status));
  throw Error(ExitStatus::failure, fmt::format("{} failed", call), cudaGetErrorString(status),
              "look for an earlier message of the GPU, and check it with nvidia-smi");
}

[[nodiscard]] inline cudaDataType type_of(const ConstTensor& x) {
  SFT_ENSURE(x.dtype == DType::float32 || x.dtype == DType::bf16, "matmul: float32 or bf16 expected");
  return x.dtype == DType::bf16 ? CUDA_R_16BF : CUDA_R_32F;
}

}  // namespace sft::ops::cuda
