// SPDX-License-Identifier: Apache-2.0
#include "sft/data/packing.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <numeric>
#include <utility>

#include "sft/core/error.hpp"

namespace sft::data {

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
    packing.rows.push_back(rest.first(static_cast<std::size_t>(num_pieces)));
    rest = rest.subspan(static_cast<std::size_t>(num_pieces));
  }
  return packing;
}

Packing best_fit_decreasing(std::vector<Piece> pieces, std::int64_t max_length) {
  std::stable_sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) { return a.length > b.length; });
  std::vector<std::size_t> row_of_piece;
  row_of_piece.reserve(pieces.size());
  std::vector<std::int64_t> pieces_per_row;
  std::map<std::int64_t, std::deque<std::size_t>> rows_by_room;  // room left -> rows, the first to get there first
  for (const Piece& piece : pieces) {
    std::size_t row = pieces_per_row.size();
    std::int64_t room = max_length;
    if (const auto best = rows_by_room.lower_bound(piece.length); best != rows_by_room.end()) {
      room = best->first;
      row = best->second.front();
      best->second.pop_front();
      if (best->second.empty()) rows_by_room.erase(best);
    } else {
      pieces_per_row.push_back(0);
    }
    row_of_piece.push_back(row);
    ++pieces_per_row[row];
    if (room > piece.length) rows_by_room[room - piece.length].push_back(row);
  }

  // Pieces in the order of their rows; within a row they stay in the order in which they were placed.
  std::vector<std::int64_t> next(pieces_per_row.size());
  std::exclusive_scan(pieces_per_row.begin(), pieces_per_row.end(), next.begin(), std::int64_t{0});
  std::vector<Piece> by_row(pieces.size());
  for (std::size_t i = 0; i < pieces.size(); ++i) by_row[static_cast<std::size_t>(next[row_of_piece[i]]++)] = pieces[i];
  return cut_into_rows(std::move(by_row), pieces_per_row);
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
  }
  return "?";
}

Packing pack(std::span<const std::int32_t> document_lengths, std::int64_t max_length, PackingStrategy strategy) {
  ensure(max_length > 0, "rows have room");
  switch (strategy) {
    case PackingStrategy::bfd:
      return best_fit_decreasing(truncated_pieces(document_lengths, max_length), max_length);
    case PackingStrategy::bfd_split:
      return best_fit_decreasing(split_pieces(document_lengths, max_length), max_length);
    case PackingStrategy::wrapped:
      return wrap(document_lengths, max_length);
    case PackingStrategy::none:
      break;
  }
  std::vector<Piece> pieces = truncated_pieces(document_lengths, max_length);
  const std::vector<std::int64_t> one_per_row(pieces.size(), 1);
  return cut_into_rows(std::move(pieces), one_per_row);
}

std::vector<std::int32_t> document_lengths_of(PackedRow row, PackingStrategy strategy) {
  std::vector<std::int32_t> lengths;
  for (const Piece& piece : row) lengths.push_back(piece.length);
  if (strategy != PackingStrategy::wrapped) return lengths;
  std::int32_t sum = 0;
  for (const std::int32_t length : lengths) sum += length;
  return {sum};
}

}  // namespace sft::data
