// SPDX-License-Identifier: Apache-2.0
#pragma once
// The GPU that is emulated: an A100 where limits are concerned, which are the tightest of those supported. Its number
// of multiprocessors changes with the seed: no result may depend on it.

#include <cstddef>

namespace sft::emulation {

inline constexpr int max_threads_per_block = 1024;
inline constexpr std::size_t shared_bytes_per_block = std::size_t{48} << 10;       ///< without asking for more
inline constexpr std::size_t max_shared_bytes_per_block = std::size_t{163} << 10;  ///< cudaFuncSetAttribute
inline constexpr std::size_t shared_bytes_per_multiprocessor = std::size_t{164} << 10;

/// SFT_EMULATED_GPUS, else 16.
[[nodiscard]] int num_gpus();
/// SFT_EMULATED_GPU_MEMORY in bytes, else 8 GiB; of each GPU and process.
[[nodiscard]] std::size_t gpu_memory_bytes();
[[nodiscard]] int num_multiprocessors();
/// SFT_EMULATED_COMPUTE_CAPABILITY, 10 times the major number and the minor one, else 80. Limits stay those of an A100.
[[nodiscard]] int compute_capability();

}  // namespace sft::emulation
