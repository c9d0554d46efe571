// SPDX-License-Identifier: Apache-2.0
#pragma once
// The bytes of a sealed file, each checked before it is given out. The format is that of sft/io/seal.hpp.

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sft/io/seal.hpp"

namespace sft::io {

/// What the begin of a file says.
enum class SealKind : std::uint8_t {
  none,          ///< there is no user block: the file begins as HDF5
  block_hashes,  ///< seal()
  whole_crc,     ///< of earlier versions: "sft-checkpoint crc32:..."
  unknown,       ///< neither HDF5 nor a seal
};

using UserBlock = std::array<char, seal_bytes>;

[[nodiscard]] SealKind kind_of(const UserBlock& block);
/// The first bytes of a file; zeros where it has fewer.
[[nodiscard]] UserBlock read_user_block(int descriptor);

/// Blocks of a sealed file, in bytes and counts.
struct BlockSizes {
  BlockSizes() = default;
  BlockSizes(std::uint64_t hdf5_end, std::uint64_t bytes_of_block);

  std::uint64_t end = 0;          ///< of the HDF5 part
  std::uint64_t block_bytes = 0;  ///< a power of two
  std::uint64_t num_blocks = 0;   ///< of the HDF5 part, each with a leaf hash
  std::uint64_t num_groups = 0;   ///< blocks of leaf hashes, each with a group hash
  std::uint64_t file_bytes = 0;
};

/// The user block of a file with these sizes and group hashes.
[[nodiscard]] UserBlock make_user_block(const BlockSizes& sizes, std::span<const std::uint64_t> group_hashes);

class SealedBytes {
 public:
  /// What became of a read; when it failed, errno says why.
  enum class Result : std::uint8_t { good, damaged, shortened, failed };

  /// Reads and checks the seal of an open file of kind block_hashes. Throws the data Error "PATH is damaged (...)".
  SealedBytes(const std::string& path, int descriptor);

  [[nodiscard]] const BlockSizes& sizes() const { return sizes_; }
  /// Reads [address, address + size), which lies in [seal_bytes, sizes().end).
  [[nodiscard]] Result read(int descriptor, std::uint64_t address, std::size_t size, char* bytes);
  /// "damaged: bytes 512 to 16896 are not those that were written", of the damage that was met last.
  [[nodiscard]] const std::string& damage() const { return damage_; }

 private:
  /// Whole blocks, checked.
  [[nodiscard]] Result read_blocks(int descriptor, std::uint64_t first, std::uint64_t count, std::vector<char>& blocks);
  [[nodiscard]] Result load_leaf_hashes(int descriptor, std::uint64_t group);
  Result refuse(std::uint64_t begin, std::uint64_t end);

  BlockSizes sizes_;
  std::vector<std::uint64_t> group_hashes_;
  std::vector<std::uint64_t> leaf_hashes_;  ///< those of loaded_group_
  std::optional<std::uint64_t> loaded_group_;
  std::string damage_;
};

}  // namespace sft::io
