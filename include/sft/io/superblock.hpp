// SPDX-License-Identifier: Apache-2.0
#pragma once
// The superblock that HDF5 files of format 1.10 on begin with (version 3; HDF5 File Format Specification 3.0, II.A).
// While a program has the file open for writing, the library keeps marks in it and refuses the file to others; they
// stay when that program is killed. All other bytes of the file can still be those that were written.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace sft::io {

inline constexpr std::size_t superblock_bytes = 48;

/// End of the warnings about files that other programs opened for writing.
inline constexpr const char* read_only_advice = "open files of sft for reading alone, as in h5py.File(name, \"r\")";

/// Takes the marks of a writer out of the superblock that is expected at `bytes`, so that it is as it was before that
/// program opened the file. False, without a change, where there is no superblock of version 3 with marks and the right
/// checksum.
bool clear_writer_marks(char* bytes, std::size_t size);

/// Whether the superblock of an open file has such marks.
[[nodiscard]] bool has_writer_marks(int descriptor);

/// A warning about a file with marks, and whether anything proves that it is unchanged.
[[nodiscard]] std::string describe_writer_marks(const std::string& path, const std::string& proof);
inline constexpr const char* compared_with_hashes = "what is read of it is compared with its hashes";

/// Where the superblock of an open file begins, behind a user block of 512 bytes times a power of two, say; nothing
/// where there is none.
[[nodiscard]] std::optional<std::uint64_t> find_superblock(int descriptor);

/// Whether an open file ends where its superblock says: as the library leaves it when it closes a file that it wrote.
[[nodiscard]] bool ends_as_hdf5(int descriptor);

/// Says how the bytes of a file of sft differ from those that were written: "PATH is damaged", or where it
/// ends_as_hdf5() that another program changed it.
[[nodiscard]] std::string describe_change(const std::string& path, int descriptor);
/// describe_change() for a file that is not open.
[[nodiscard]] std::string describe_change(const std::string& path);

/// Whether an open file, whose superblock begins at `address`, has bytes behind the end that the superblock says.
[[nodiscard]] bool has_bytes_behind(int descriptor, std::uint64_t address);

}  // namespace sft::io
