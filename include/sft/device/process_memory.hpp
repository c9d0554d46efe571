// SPDX-License-Identifier: Apache-2.0
#pragma once
// Memory as the operating system counts it: what this process holds.

#include <cstddef>

namespace sft::device {

/// What every process takes after its start on top of its arenas: pages of code and oneDNN's kernels in the first step,
/// HDF5 and the staging memory of a checkpoint. Measured: 0 to 4 MiB, less on ranks that write no checkpoint.
inline constexpr std::size_t later_process_bytes = std::size_t{2} << 20;

/// Resident set of this process, in bytes: now, and the highest so far.
[[nodiscard]] std::size_t resident_bytes();
[[nodiscard]] std::size_t peak_resident_bytes();

}  // namespace sft::device
