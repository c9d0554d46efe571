#include "sft/data/packing.hpp"

#include <algorithm>
#include <deque>
#include <map>

#include "sft/core/cast.hpp"
#include "sft/core/error.hpp"

namespace sft::data {

namespace {

/// Every document as one piece, cut at max_length.
std::vector<Piece> truncated_pieces(std::span<const std::int64_t> document_lengths, std::int64_t max_length) {
  std::vector<Piece> pieces;
  for (std::size_t d = 0; d < document_lengths.size(); ++d) {
    const std::int64_t length = std::min(document_lengths[d], max_length);
    if (length > 0) pieces.push_back({static_cast<std::int64_t>(d), 0, length});
  }
  return pieces;
}

/// Every document as pieces of max_length and a rest.
std::vector<Piece> split_pieces(std::span<const std::int64_t> document_lengths, std::int64_t max_length) {
  std::vector<Piece> pieces;
  for (std::size_t d = 0; d < document_lengths.size(); ++d) {
    for (std::int64_t begin = 0; begin < document_lengths[d]; begin += max_length) {
      pieces.push_back({static_cast<std::int64_t>(d), begin, std::min(document_lengths[d] - begin, max_length)});
    }
  }
  return pieces;
}

std::vector<PackedRow> best_fit_decreasing(std::vector<Piece> pieces, std::int64_t max_length) {
  std::stable_sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) { return a.length > b.length; });
  std::vector<PackedRow> rows;
  std::map<std::int64_t, std::deque<std::size_t>> rows_by_room;  // room left -> rows, the first to get there first
  for (const Piece& piece : pieces) {
    std::size_t row = rows.size();
    std::int64_t room = max_length;
    if (const auto best = rows_by_room.lower_bound(piece.length); best != rows_by_room.end()) {
      room = best->first;
      row = best->second.front();
      best->second.pop_front();
      if (best->second.empty()) rows_by_room.erase(best);
    } else {
      rows.emplace_back();
    }
    rows[row].push_back(piece);
    if (room > piece.length) rows_by_room[room - piece.length].push_back(row);
  }
  return rows;
}

std::vector<PackedRow> wrap(std::span<const std::int64_t> document_lengths, std::int64_t max_length) {
  std::vector<PackedRow> rows;
  std::int64_t room = 0;
  for (std::size_t d = 0; d < document_lengths.size(); ++d) {
    for (std::int64_t begin = 0; begin < document_lengths[d];) {
      if (room == 0) {
        rows.emplace_back();
        room = max_length;
      }
      const std::int64_t length = std::min(document_lengths[d] - begin, room);
      rows.back().push_back({static_cast<std::int64_t>(d), begin, length});
      begin += length;
      room -= length;
    }
  }
  return rows;
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

std::vector<PackedRow> pack(std::span<const std::int64_t> document_lengths, std::int64_t max_length,
                            PackingStrategy strategy) {
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
  std::vector<PackedRow> rows;
  for (const Piece& piece : truncated_pieces(document_lengths, max_length)) rows.push_back({piece});
  return rows;
}

std::vector<std::int32_t> document_lengths_of(const PackedRow& row, PackingStrategy strategy) {
  std::vector<std::int32_t> lengths;
  for (const Piece& piece : row) lengths.push_back(checked_cast<std::int32_t>(piece.length));
  if (strategy != PackingStrategy::wrapped) return lengths;
  std::int32_t sum = 0;
  for (const std::int32_t length : lengths) sum += length;
  return {sum};
}

}  // namespace sft::data
