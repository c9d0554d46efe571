// SPDX-License-Identifier: Apache-2.0
#include "cuda_gpus.hpp"

#include <cuda_runtime.h>

#include <array>
#include <bit>

namespace sft::machine {

VisibleGpus visible_cuda_gpus() {
  VisibleGpus visible;
  int count = 0;
  cudaError_t code = cudaGetDeviceCount(&count);
  for (int i = 0; code == cudaSuccess && i < count; ++i) {
    cudaDeviceProp properties{};
    code = cudaGetDeviceProperties(&properties, i);
    if (code != cudaSuccess) break;
    const auto bytes = std::bit_cast<std::array<unsigned char, sizeof properties.uuid>>(properties.uuid);
    visible.gpus.push_back(
        {uuid_text(bytes), 10 * properties.major + properties.minor, properties.totalGlobalMem, properties.name});
  }
  if (code != cudaSuccess) {
    visible = {{}, cudaGetErrorString(code)};
    (void)cudaGetLastError();  // reported here, and not again by a later check
  } else if (count == 0) {
    visible.problem = "the node shows none";
  }
  return visible;
}

}  // namespace sft::machine
