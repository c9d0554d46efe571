// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which piece of which document goes into which row. Pure.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace sft::prepare {

enum class PackingStrategy : std::uint8_t {
  none,       ///< every document is a row of its own, cut at max_length
  bfd,        ///< best fit decreasing; documents longer than max_length are cut there
  bfd_split,  ///< best fit decreasing; longer documents continue as documents of their own
  wrapped,    ///< one stream of all documents, cut every max_length tokens; a row counts as one document
  balanced,   ///< as bfd, then documents change places until rows have about equal attention work
};

/// "none", "bfd", "bfd_split", "wrapped" or "balanced".
[[nodiscard]] const char* name_of(PackingStrategy strategy);
/// Whether tokens past max_length are lost.
[[nodiscard]] constexpr bool truncates(PackingStrategy strategy) {
  return strategy != PackingStrategy::bfd_split && strategy != PackingStrategy::wrapped;
}

/// Tokens [begin, begin + length) of one document; length >= 1.
struct Piece {
  std::int64_t document = 0;
  std::int32_t begin = 0;
  std::int32_t length = 0;

  bool operator==(const Piece&) const = default;
};

/// The pieces of one row, in order; they belong to a Packing.
using PackedRow = std::span<const Piece>;

/// All rows, and the pieces that they point into.
struct Packing {
  Packing() = default;
  Packing(Packing&&) = default;
  Packing& operator=(Packing&&) = default;

  std::vector<Piece> pieces;
  std::vector<PackedRow> rows;
};

/// Rows of at most max_length tokens. Documents of length 0 get no piece. Best fit decreasing as TRL does it: longest
/// first (ties in order), into the fullest row that has room, among equally full ones the one that became so first,
/// else into a new row; O(n log n). Rows come in the order in which they were opened. `balanced` deals the documents of
/// these rows anew, the longest first, each to the row of least work (the sum of its squared document lengths) that has
/// room; if that takes more than 2 % more rows, the rows of bfd stay.
[[nodiscard]] Packing pack(std::span<const std::int32_t> document_lengths, std::int64_t max_length,
                           PackingStrategy strategy);

/// Which documents are packed together.
struct PackingBlocks {
  static constexpr std::int64_t whole = 0;
  std::int64_t block_size = 1000;  ///< documents that are packed together, as TRL does it; `whole`: all of them
  std::int64_t num_shards = 1;  ///< consecutive parts, the first ones longer by one, each of which is cut into blocks
};

/// Packs block by block; rows come in the order of the blocks.
[[nodiscard]] Packing pack_blocks(std::span<const std::int32_t> document_lengths, std::int64_t max_length,
                                  PackingStrategy strategy, const PackingBlocks& blocks);

/// Lengths of the documents of a packed row as training sees them: its pieces, or under `wrapped` the whole row.
[[nodiscard]] std::vector<std::int32_t> document_lengths_of(PackedRow row, PackingStrategy strategy);

}  // namespace sft::prepare
