// SPDX-License-Identifier: Apache-2.0
#include "sft/prepare/packing.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "sft/core/ensure.hpp"

namespace sft::prepare {

namespace {

/// Every document as one piece, cut at max_length.
std::vector<Piece> truncated_pieces(std::span<const std::int32_t> document_lengths, std::int64_t max_length) {
  std::vector<Piece> pieces;
  pieces.reserve(document_lengths.size());
  for (std::size_t d = 0; d < document_lengths.size(); ++d) {
    const std::int64_t length = std::min<std::int64_t>(document_lengths[d], max_length);
    if (length > 0) pieces.push_back({static_cast<std::int64_t>(d), 0, static_cast<std::int32_t>(length)});
  }
  return pieces;
}

/// Every document as pieces of max_length and a rest.
std::vector<Piece> split_pieces(std::span<const std::int32_t> document_lengths, std::int64_t max_length) {
  std::vector<Piece> pieces;
  for (std::size_t d = 0; d < document_lengths.size(); ++d) {
    for (std::int64_t begin = 0; begin < document_lengths[d]; begin += max_length) {
      const std::int64_t length = std::min(document_lengths[d] - begin, max_length);
      pieces.push_back(
          {static_cast<std::int64_t>(d), static_cast<std::int32_t>(begin), static_cast<std::int32_t>(length)});
    }
  }
  return pieces;
}

/// Rows of the given numbers of pieces, cut from `pieces` in order.
Packing cut_into_rows(std::vector<Piece> pieces, std::span<const std::int64_t> pieces_per_row) {
  Packing packing;
  packing.pieces = std::move(pieces);
  packing.rows.reserve(pieces_per_row.size());
  PackedRow rest = packing.pieces;
  for (const std::int64_t num_pieces : pieces_per_row) {
    packing.rows.push_back(rest.first(num_pieces));
    rest = rest.subspan(num_pieces);
  }
  return packing;
}

/// Rows that hold the pieces that chose them, in the order in which these were placed.
Packing in_rows(const std::vector<Piece>& pieces, const std::vector<std::size_t>& row_of_piece, std::size_t num_rows) {
  std::vector<std::int64_t> pieces_per_row(num_rows, 0);
  for (const std::size_t row : row_of_piece) ++pieces_per_row[row];
  std::vector<std::int64_t> next(num_rows);
  std::exclusive_scan(pieces_per_row.begin(), pieces_per_row.end(), next.begin(), std::int64_t{0});
  std::vector<Piece> by_row(pieces.size());
  for (std::size_t i = 0; i < pieces.size(); ++i) by_row[next[row_of_piece[i]]++] = pieces[i];
  return cut_into_rows(std::move(by_row), pieces_per_row);
}

Packing best_fit_decreasing(std::vector<Piece> pieces, std::int64_t max_length) {
  std::stable_sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) { return a.length > b.length; });
  std::vector<std::size_t> row_of_piece;
  row_of_piece.reserve(pieces.size());
  std::size_t num_rows = 0;
  std::map<std::int64_t, std::deque<std::size_t>> rows_by_room;  // room left -> rows, the first to get there first
  for (const Piece& piece : pieces) {
    std::size_t row = num_rows;
    std::int64_t room = max_length;
    if (const auto best = rows_by_room.lower_bound(piece.length); best != rows_by_room.end()) {
      room = best->first;
      row = best->second.front();
      best->second.pop_front();
      if (best->second.empty()) rows_by_room.erase(best);
    } else {
      ++num_rows;
    }
    row_of_piece.push_back(row);
    if (room > piece.length) rows_by_room[room - piece.length].push_back(row);
  }
  return in_rows(pieces, row_of_piece, num_rows);
}

/// Where the documents of the rows of `packed` go when each, the longest first, goes to the row of least work.
Packing even_out(Packing packed, std::int64_t max_length) {
  constexpr int max_looked_at = 64;  // rows, before the emptiest one is taken
  std::vector<Piece> pieces = packed.pieces;
  std::stable_sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) { return a.length > b.length; });
  struct RowState {
    std::int64_t work = 0;
    std::int64_t room = 0;
  };
  std::vector<RowState> rows(packed.rows.size(), {0, max_length});
  const std::size_t max_rows = packed.rows.size() + packed.rows.size() / 50;
  using Key = std::pair<std::int64_t, std::size_t>;  // work or negative room, and row
  std::set<Key> by_work, by_room;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    by_work.insert({0, row});
    by_room.insert({-max_length, row});
  }
  const auto choose = [&](std::int64_t length) {
    int looked_at = 0;
    for (const auto& [work, row] : by_work) {
      if (rows[row].room >= length) return row;
      if (++looked_at == max_looked_at) break;
    }
    const std::size_t emptiest = by_room.begin()->second;
    return rows[emptiest].room >= length ? emptiest : rows.size();
  };
  std::vector<std::size_t> row_of_piece;
  row_of_piece.reserve(pieces.size());
  for (const Piece& piece : pieces) {
    const std::size_t row = choose(piece.length);
    if (row == rows.size()) {
      if (rows.size() == max_rows) return packed;
      rows.push_back({0, max_length});
    } else {
      by_work.erase({rows[row].work, row});
      by_room.erase({-rows[row].room, row});
    }
    rows[row].work += std::int64_t{piece.length} * piece.length;
    rows[row].room -= piece.length;
    by_work.insert({rows[row].work, row});
    by_room.insert({-rows[row].room, row});
    row_of_piece.push_back(row);
  }
  return in_rows(pieces, row_of_piece, rows.size());
}

Packing wrap(std::span<const std::int32_t> document_lengths, std::int64_t max_length) {
  std::vector<Piece> pieces;
  std::vector<std::int64_t> pieces_per_row;
  std::int64_t room = 0;
  for (std::size_t d = 0; d < document_lengths.size(); ++d) {
    for (std::int64_t begin = 0; begin < document_lengths[d];) {
      if (room == 0) {
        pieces_per_row.push_back(0);
        room = max_length;
      }
      const std::int64_t length = std::min(document_lengths[d] - begin, room);
      pieces.push_back(
          {static_cast<std::int64_t>(d), static_cast<std::int32_t>(begin), static_cast<std::int32_t>(length)});
      ++pieces_per_row.back();
      begin += length;
      room -= length;
    }
  }
  return cut_into_rows(std::move(pieces), pieces_per_row);
}

}  // namespace

const char* name_of(PackingStrategy strategy) {
  switch (strategy) {
    case PackingStrategy::none:
      return "none";
    case PackingStrategy::bfd:
      return "bfd";
    case PackingStrategy::bfd_split:
      return "bfd_split";
    case PackingStrategy::wrapped:
      return "wrapped";
    case PackingStrategy::balanced:
      return "balanced";
  }
  return "?";
}

Packing pack(std::span<const std::int32_t> document_lengths, std::int64_t max_length, PackingStrategy strategy) {
  SFT_ENSURE(max_length > 0, "rows have room");
  switch (strategy) {
    case PackingStrategy::bfd:
      return best_fit_decreasing(truncated_pieces(document_lengths, max_length), max_length);
    case PackingStrategy::bfd_split:
      return best_fit_decreasing(split_pieces(document_lengths, max_length), max_length);
    case PackingStrategy::wrapped:
      return wrap(document_lengths, max_length);
    case PackingStrategy::balanced:
      return even_out(best_fit_decreasing(truncated_pieces(document_lengths, max_length), max_length), max_length);
    case PackingStrategy::none:
      break;
  }
  std::vector<Piece> pieces = truncated_pieces(document_lengths, max_length);
  const std::vector<std::int64_t> one_per_row(pieces.size(), 1);
  return cut_into_rows(std::move(pieces), one_per_row);
}

Packing pack_blocks(std::span<const std::int32_t> document_lengths, std::int64_t max_length, PackingStrategy strategy,
                    const PackingBlocks& blocks) {
  const auto num_documents = static_cast<std::int64_t>(document_lengths.size());
  const std::int64_t num_shards =
      std::clamp<std::int64_t>(blocks.num_shards, 1, std::max<std::int64_t>(num_documents, 1));
  std::vector<Piece> pieces;
  std::vector<std::int64_t> pieces_per_row;
  std::int64_t shard_begin = 0;
  for (std::int64_t shard = 0; shard < num_shards; ++shard) {
    const std::int64_t shard_end =
        shard_begin + num_documents / num_shards + (shard < num_documents % num_shards ? 1 : 0);
    const std::int64_t block_size = blocks.block_size == PackingBlocks::whole ? num_documents : blocks.block_size;
    for (std::int64_t begin = shard_begin; begin < shard_end; begin += block_size) {
      const std::int64_t size = std::min(block_size, shard_end - begin);
      const Packing block = pack(document_lengths.subspan(begin, size), max_length, strategy);
      for (const PackedRow& row : block.rows) pieces_per_row.push_back(std::ssize(row));
      for (Piece piece : block.pieces) {
        piece.document += begin;
        pieces.push_back(piece);
      }
    }
    shard_begin = shard_end;
  }
  return cut_into_rows(std::move(pieces), pieces_per_row);
}

std::vector<std::int32_t> document_lengths_of(PackedRow row, PackingStrategy strategy) {
  std::vector<std::int32_t> lengths;
  for (const Piece& piece : row) lengths.push_back(piece.length);
  if (strategy != PackingStrategy::wrapped) return lengths;
  std::int32_t sum = 0;
  for (const std::int32_t length : lengths) sum += length;
  return {sum};
}

}  // namespace sft::prepare
