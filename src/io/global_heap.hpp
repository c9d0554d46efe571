// SPDX-License-Identifier: Apache-2.0
#pragma once
// Global heaps of HDF5 files hold their texts of variable length. They carry no checksum, and the library (1.10 at
// least) never ends when it meets a damaged one, so the file driver looks at each before the library does.

#include <cstddef>
#include <cstdint>
#include <string>

namespace sft::io {

/// Whether these bytes can be the begin of a global heap's collection.
[[nodiscard]] bool begins_global_heap(const char* bytes, std::size_t size);

/// Why the collection of a global heap that begins at `address` of an open file cannot be what HDF5 wrote there; ""
/// when it can. (HDF5 File Format Specification 3.0, III.E "Disk Format: Level 1E - Global Heap".)
[[nodiscard]] std::string damage_of_global_heap(int descriptor, std::uint64_t address);

}  // namespace sft::io
