// SPDX-License-Identifier: Apache-2.0
#pragma once
// Seals: hashes that a file carries of its own bytes, so that damage is found before anything trusts it. The HDF5
// library can hang, crash or read zeros on damaged bytes. Of a sealed file it gets none that were not checked, and a
// file is checked block by block as it is read: opening one of 100 GB reads some tens of kilobytes.
//
// A sealed file is an HDF5 file between two parts of ours that HDF5 tools skip:
//   [0, 512)      user block: the line "sft-seal 1 END BLOCK_BYTES ROOT" and zeros
//   [512, END)    the HDF5 file, in blocks of BLOCK_BYTES (16384), the last one shorter
//   [END, ...)    XXH3-64 of each of these blocks, then XXH3-64 of each block of these hashes, all little-endian
// ROOT is "xxh128:..." of END, BLOCK_BYTES (int64) and the last hashes: a tree with the data as leaves (Merkle, 1979).
//
// HDF5 writes to a file that a program opens for writing, also where that program changes nothing: marks in the
// superblock while it is open, which a kill leaves there, and when it is closed, the hashes at the end are cut off.
// ROOT still proves all other bytes: such a file is read, with a warning (Hdf5File::warning()), and given its hashes
// back.

#include <cstddef>
#include <string>

namespace sft::io {

/// Size of the user block that Hdf5File::create() leaves for the seal.
inline constexpr std::size_t seal_bytes = 512;

/// Seals a file that was created with a user block of seal_bytes and just closed. Reads it once. The caller syncs. A
/// data Error names a file that cannot be read or written.
void seal(const std::string& path);

/// Reads the whole file; a data Error names one whose bytes are not those that were sealed. A file that begins as HDF5,
/// or behind a user block of others, carries no seal and passes. Of a checkpoint.h5 whose user block is "sft-checkpoint
/// crc32:..." it compares the CRC-32 of all that follows, which Hdf5File::open() does not.
void check_seal(const std::string& path);

}  // namespace sft::io
