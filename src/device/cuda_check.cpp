// SPDX-License-Identifier: Apache-2.0
#include "cuda_check.hpp"

#include <string>

#include "sft/core/error.hpp"
#include "sft/core/log.hpp"

namespace sft::device {

void check_cuda(cudaError_t code, const char* call) {
  if (code == cudaSuccess) return;
  throw Error(ExitStatus::failure, std::string(call) + " failed on rank " + std::to_string(log_rank()),
              cudaGetErrorString(code),
              "look for an earlier message of another rank, and check the GPU with nvidia-smi");
}

}  // namespace sft::device
