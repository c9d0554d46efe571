// SPDX-License-Identifier: Apache-2.0
#include "cuda_gpus.hpp"

#include <cuda_runtime.h>

#include <fmt/core.h>
#include <unistd.h>
#include <array>
#include <bit>
#include <cstdlib>
#include <string>

namespace sft::machine {

namespace {

std::string version_text(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

/// Why CUDA answered with `code`. `has_device_file`: the kernel's driver shows a GPU.
VisibleGpus without_gpus(cudaError_t code, bool has_device_file) {
  int driver = 0, own = 0;  // 0: there is no libcuda
  (void)cudaDriverGetVersion(&driver);
  (void)cudaRuntimeGetVersion(&own);
  (void)cudaGetLastError();  // reported here, and not again by a later check
  if (driver > 0 && driver < own && code == cudaErrorInsufficientDriver) {
    return {
        {},
        fmt::format("its driver knows CUDA up to {}, and this program was built with CUDA {}: update the driver, or "
                    "build with a CUDA toolkit that is no newer",
                    version_text(driver), version_text(own)),
        /*is_broken=*/true};
  }
  if (driver == 0 && has_device_file) {
    return {{},
            "there is /dev/nvidia0 but no libcuda.so.1: in a container, start it with --nv (Apptainer) or --gpus all "
            "(Docker)",
            /*is_broken=*/true};
  }
  return {{}, cudaGetErrorString(code), /*is_broken=*/driver > 0 && code != cudaErrorNoDevice};
}

}  // namespace

void set_cuda_environment() {
  // A stream beyond this number shares a hardware queue with another one and waits for its work; the default is 8.
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", /*overwrite=*/0);
}

VisibleGpus visible_cuda_gpus() {
  set_cuda_environment();
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
  if (code != cudaSuccess) return without_gpus(code, ::access("/dev/nvidia0", F_OK) == 0);
  if (count == 0) visible.problem = "the node shows none";
  return visible;
}

}  // namespace sft::machine
