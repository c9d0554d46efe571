// SPDX-License-Identifier: Apache-2.0
#pragma once
// Handles of the emulated cuBLAS.

#include <cublas_v2.h>

#include <cstddef>
#include <string>

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
