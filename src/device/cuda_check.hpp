// SPDX-License-Identifier: Apache-2.0
#pragma once
// Errors of the CUDA runtime as exceptions.

#include <cuda_runtime.h>

namespace sft::device {

/// Throws an Error naming `call`, CUDA's own text and the rank unless `code` is cudaSuccess. Errors of earlier queued
/// work may show up here too.
void check_cuda(cudaError_t code, const char* call);

}  // namespace sft::device
