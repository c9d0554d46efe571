#pragma once
// The checksum that checkpoint.h5 carries of itself, in the user block before its HDF5 part. HDF5 trusts the bytes of
// an object heap, where the maps of virtual datasets lie: a flipped bit there can crash it or hang it. So nothing is
// given to it before the seal is checked.

#include <cstddef>
#include <string>

namespace sft::checkpoint {

/// Bytes before the HDF5 part: one line of text, then zeros.
inline constexpr std::size_t seal_bytes = 512;

/// Writes the checksum of a closed file into its user block of seal_bytes. The caller syncs.
void seal(const std::string& path);

/// Refuses a file whose bytes are not those that were sealed. A file that begins as HDF5, with no user block, was
/// written by another tool and passes.
void check_seal(const std::string& path);

}  // namespace sft::checkpoint
