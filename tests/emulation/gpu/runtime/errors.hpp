// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

namespace sft::emulation {

/// Remembers an error for cudaGetLastError, and returns it: cudaErrorIllegalAddress, whatever `code` is, once a kernel
/// broke off.
cudaError_t result(cudaError_t code);

}  // namespace sft::emulation
