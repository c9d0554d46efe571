// SPDX-License-Identifier: Apache-2.0
#pragma once
// The bytes of a sealed file, each checked before it is given out. The format is that of sft/io/seal.hpp.

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sft/io/seal.hpp"

namespace sft::io {

/// What the begin of a file says.
enum class SealKind : std::uint8_t {
  none,          ///< HDF5 begins at once, or behind a user block of others
  block_hashes,  ///< seal()
  whole_crc,     ///< of earlier versions: "sft-checkpoint crc32:..."
  unknown,       ///< neither HDF5 nor a seal
};

using UserBlock = std::array<char, seal_bytes>;

/// The first bytes of a file; zeros where it has fewer.
[[nodiscard]] UserBlock read_user_block(int descriptor);
/// The kind of seal of an open file that begins with `block`.
[[nodiscard]] SealKind kind_of(const UserBlock& block, int descriptor);

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

  /// Reads and checks the seal of an open file of kind block_hashes. Throws the data Error of
  /// describe_change().
  ///
  /// HDF5 cuts off what lies behind its part of a file when it closes one that was opened for writing, changed or not:
  /// the hashes. Of such a file all blocks are read here and compared with the root hash, and their hashes are kept.
  SealedBytes(const std::string& path, int descriptor);

  [[nodiscard]] const BlockSizes& sizes() const { return sizes_; }
  /// The line at the begin of the file, which tells its content from any other.
  [[nodiscard]] const std::string& line() const { return line_; }
  /// Whether the hashes at the end of the file were gone when it was opened.
  [[nodiscard]] bool is_cut() const { return is_cut_; }
  /// Whether the superblock was met with the marks of a program that has the file open for writing.
  [[nodiscard]] bool is_marked() const { return is_marked_; }
  /// The hashes that belong after the HDF5 part of a file that is_cut().
  [[nodiscard]] std::vector<std::uint64_t> hashes() const;
  /// Reads [address, address + size), which lies in [seal_bytes, sizes().end).
  [[nodiscard]] Result read(int descriptor, std::uint64_t address, std::size_t size, char* bytes);
  /// "damaged: bytes 512 to 16896 are not those that were written", of the damage that was met last.
  [[nodiscard]] const std::string& damage() const { return damage_; }

 private:
  /// Whole blocks, checked.
  [[nodiscard]] Result read_blocks(int descriptor, std::uint64_t first, std::uint64_t count, std::vector<char>& blocks);
  [[nodiscard]] Result load_leaf_hashes(int descriptor, std::uint64_t group);
  /// Hashes the blocks of a group, for made_leaf_hashes_.
  [[nodiscard]] Result make_leaf_hashes(int descriptor, std::uint64_t group);
  /// Reads the group hashes of a whole file, or makes all hashes.
  [[nodiscard]] Result load_group_hashes(int descriptor, std::uint64_t file_bytes);
  [[nodiscard]] const std::vector<std::uint64_t>& leaf_hashes(std::uint64_t group) const;
  [[nodiscard]] std::uint64_t hashes_per_group() const;
  [[nodiscard]] std::uint64_t group_size(std::uint64_t group) const;
  Result refuse(std::uint64_t begin, std::uint64_t end);

  BlockSizes sizes_;
  std::string line_;
  bool is_cut_ = false;
  bool is_marked_ = false;
  std::vector<std::uint64_t> group_hashes_;
  std::vector<std::uint64_t> leaf_hashes_;  ///< those of loaded_group_
  std::optional<std::uint64_t> loaded_group_;
  /// By group: those that the file has lost, made from its blocks.
  std::map<std::uint64_t, std::vector<std::uint64_t>> made_leaf_hashes_;
  std::string damage_;
};

/// Writes what a file that is_cut() has lost behind its HDF5 part, where nobody else has it open. Returns "" or why
/// not. A crash leaves the file cut or whole.
[[nodiscard]] std::string restore_hashes(const std::string& path, const SealedBytes& seal);

}  // namespace sft::io
