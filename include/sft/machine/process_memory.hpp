// SPDX-License-Identifier: Apache-2.0
#pragma once
// Memory as the operating system counts it: what this process holds.

#include <cstddef>

namespace sft::machine {

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

}  // namespace sft::machine
