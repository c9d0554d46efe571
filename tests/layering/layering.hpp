// SPDX-License-Identifier: Apache-2.0
#pragma once
// Holds the sources of a tree against the table of rooms.

#include <filesystem>
#include <vector>

#include "layering/rooms.hpp"

namespace sft::test {

/// Violations of rules in include/sft/<room>, src/<floor>/<room> and their CMakeLists.txt under `root`, which also
/// holds the table in `rooms_file`:
///   1. an include of a room that the table does not grant, or of another room's private header, but for the one by
///      which all .cu files launch their kernels;
///   2. a name of a room that the table does not grant (`device::Stream`), wherever its header came from: a permitted
///      header may include it;
///   3. MPI, HDF5, CUDA, NCCL or oneDNN in a public header;
///   4. #if on a backend outside a factory file;
///   5. ROOMS in a CMakeLists.txt that the table does not grant, or that its sources do not use;
///   6. a grant that no source of the room uses;
///   7. a folder that is no floor or no room, and a room on another floor than the table's;
///   8. an include of another program in src/apps, whose folders are programs and `common`.
[[nodiscard]] std::vector<Violation> find_violations(const std::filesystem::path& root,
                                                     const std::filesystem::path& rooms_file);

}  // namespace sft::test
