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

/// Resident set of this process, in bytes: now, and the highest so far. The highest leaves out pages of shared memory
/// that belong to other processes (SharedBytes) and are resident here too because this one has read them: else they
/// would count once for each reader. The system tells no peak without them, so it is the highest resident set less what
/// is resident of others now, or the highest before there was shared memory, if that is more. Exact once a step has
/// run, as pages of shared memory stay resident.
[[nodiscard]] std::size_t resident_bytes();
[[nodiscard]] std::size_t peak_resident_bytes();

/// While it lives, `bytes` of the shared memory that is resident here belong to this process. Make it before the
/// memory. Shared memory that was resident before the first was made (MPI's own) belongs to it too.
class SharedBytes {
 public:
  explicit SharedBytes(std::size_t bytes);
  ~SharedBytes();
  SharedBytes(const SharedBytes&) = delete;
  SharedBytes& operator=(const SharedBytes&) = delete;

 private:
  std::size_t bytes_;
};

}  // namespace sft::device
