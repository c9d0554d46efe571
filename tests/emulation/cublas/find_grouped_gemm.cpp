// SPDX-License-Identifier: Apache-2.0
// Finds the emulated cuBLAS, as src/hardware/ops/cuda/cublas_on_demand.cpp does the real one. SFT_EMULATED_CUBLAS says
// that there is none (missing), or none that knows groups (old).
#include <cstdlib>
#include <cstring>

#include "ops/cuda/cublas_calls.hpp"
#include "sft/core/error.hpp"

bool sft_find_grouped_gemm() {
  const char* state = std::getenv("SFT_EMULATED_CUBLAS");
  if (state != nullptr && std::strcmp(state, "missing") == 0) {
    sft::throw_config_error("cuBLAS cannot be used", "libcublas.so: cannot open shared object file", "install it");
  }
  if (state != nullptr && std::strcmp(state, "old") == 0) {
    sft::throw_config_error("cuBLAS cannot be used", "the one that was found has no cublasGemmGroupedBatchedEx",
                            "use a newer one");
  }
  return true;
}
