// SPDX-License-Identifier: Apache-2.0
#include "ops/cuda/cudnn/absent_gpu.hpp"

#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "sft/core/error.hpp"

namespace sft::ops::cuda::cudnn {

namespace {

/// What GPUs of one compute capability have in common, and clocks, caches and memory of one of them.
struct Kind {
  int compute_capability;
  int shared_bytes_of_block;
  int clock_khz, memory_clock_khz, cache_bytes, memory_bus_bits;
};
constexpr std::array kinds = {Kind{80, 166'912, 1'410'000, 1'593'000, 41'943'040, 5120},   // A100
                              Kind{90, 232'448, 1'980'000, 2'619'000, 52'428'800, 5120}};  // H100

/// cuDNN loads no graph of a newer driver than the one that is there, some versions none of another: this is the oldest
/// that this program runs with.
constexpr int driver_version = CUDART_VERSION / 1000 * 1000;

std::string version_of(int compute_capability) {
  return fmt::format("{}.{}", compute_capability / 10, compute_capability % 10);
}

}  // namespace

std::string properties_of(const AbsentGpu& gpu) {
  const auto kind = std::ranges::find(kinds, gpu.compute_capability, &Kind::compute_capability);
  if (kind == kinds.end() || gpu.multiprocessors <= 0) {
    const bool is_known = kind != kinds.end();
    throw_config_error(
        "graphs of attention cannot be compiled for this GPU",
        is_known
            ? "the machine's number of multiprocessors is not given, and a graph is for one number"
            : fmt::format("its compute capability is {}, and those of {} and {} are known",
                          gpu.compute_capability > 0 ? version_of(gpu.compute_capability) : "not given",
                          version_of(kinds.front().compute_capability), version_of(kinds.back().compute_capability)),
        "name a machine of share/sft/machines.ini, as --machine h200, or a file that has "
        "compute_capability and multiprocessors; else the first step of the run compiles them");
  }
  return fmt::format(
      R"({{"maxGridSize": [2147483647, 65535, 65535], "maxBlockSize": [1024, 1024, 64], "regsPerBlock": 65536, )"
      R"("multiProcessorCount": {}, "warpSize": 32, "maxSharedMemoryPerBlock": 49152, )"
      R"("maxSharedMemoryPerBlockOptin": {}, "reservedSharedMemoryPerBlock": 1024, "maxRegistersPerSM": 65536, )"
      R"("maxCtasPerSM": 32, "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048, "pciDeviceId": 0, "isTccDriver": 0, )"
      R"("supportCoopLaunch": 1, "totalGlobalMem": {}, "smClockRateKHz": {}, "memClockRateKHz": {}, "l2CacheSize": {}, )"
      R"("cudaDeviceId": 0, "deviceVer": {}, "driverVer": {}, "memoryBusWidth": {}, "smCountOrigin": 0, )"
      R"("oversizedSharedMemoryPerBlock": 0, "deviceName": "GPU {}"}})",
      gpu.multiprocessors, kind->shared_bytes_of_block, gpu.memory_bytes, kind->clock_khz, kind->memory_clock_khz,
      kind->cache_bytes, 10 * gpu.compute_capability, driver_version,
      gpu.memory_bus_bits > 0 ? gpu.memory_bus_bits : kind->memory_bus_bits, version_of(gpu.compute_capability));
}

void load_absent_driver(const AbsentGpu& gpu) {
  if (::dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD) != nullptr) return;
  // Whoever asks for libcuda.so.1 from here on gets this one, as it says that this is its name.
  if (::dlopen(gpu.driver_file.c_str(), RTLD_NOW | RTLD_GLOBAL) != nullptr) return;
  const char* const reason = ::dlerror();
  throw_config_error(
      "graphs of attention cannot be compiled without a GPU",
      fmt::format("what stands for its driver cannot be loaded: {}", reason != nullptr ? reason : gpu.driver_file),
      "install sft again, or let the first step of the run compile them");
}

}  // namespace sft::ops::cuda::cudnn
