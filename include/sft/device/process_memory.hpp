// SPDX-License-Identifier: Apache-2.0
#pragma once
// Memory as the operating system counts it: what this process holds.

#include <cstddef>

namespace sft::device {

/// What every process takes after its start on top of its arenas: pages of code and oneDNN's kernels in the first step,
/// HDF5 and the staging memory of a checkpoint. Measured: 0 to 4 MiB, less on ranks that write no checkpoint.
inline constexpr std::size_t later_process_bytes = std::size_t{2} << 20;

/// The same for the memory of a GPU: kernels of this program and of its libraries, which CUDA loads at their first use.
/// An assumption.
inline constexpr std::size_t later_gpu_bytes = std::size_t{256} << 20;
/// What the CUDA runtime and cuBLAS, and NCCL for each group that sends tensors, hold on a GPU when training starts:
/// assumptions for plans of machines that are not there. A run measures it (Device::own_memory).
inline constexpr std::size_t assumed_gpu_context_bytes = std::size_t{512} << 20;
inline constexpr std::size_t assumed_gpu_group_bytes = std::size_t{256} << 20;

/// Resident set of this process, in bytes: now, and the highest so far.
[[nodiscard]] std::size_t resident_bytes();
[[nodiscard]] std::size_t peak_resident_bytes();

}  // namespace sft::device
