// SPDX-License-Identifier: Apache-2.0
#include "sft/data/packing.hpp"

#include <boost/test/unit_test.hpp>
#include <map>
#include <numeric>
#include <random>

using namespace sft::data;

namespace {

/// Rows as numbers, the tokens of all documents being counted from 1.
std::vector<std::vector<std::int64_t>> numbered(const Packing& packing, const std::vector<std::int32_t>& lengths) {
  std::vector<std::int64_t> first = {1};
  for (const std::int32_t length : lengths) first.push_back(first.back() + length);
  std::vector<std::vector<std::int64_t>> result;
  for (const PackedRow row : packing.rows) {
    result.emplace_back();
    for (const Piece& piece : row) {
      for (std::int64_t i = 0; i < piece.length; ++i) {
        result.back().push_back(first[static_cast<std::size_t>(piece.document)] + piece.begin + i);
      }
    }
  }
  return result;
}

using Rows = std::vector<std::vector<std::int64_t>>;

std::vector<std::int32_t> random_lengths(std::mt19937& generator, std::int64_t max_length) {
  std::vector<std::int32_t> lengths(1 + generator() % 300);
  for (std::int32_t& length : lengths) {
    length = static_cast<std::int32_t>(generator() % static_cast<unsigned>(3 * max_length));
  }
  return lengths;
}

std::int64_t length_of(PackedRow row) {
  return std::accumulate(row.begin(), row.end(), std::int64_t{0},
                         [](std::int64_t sum, const Piece& piece) { return sum + piece.length; });
}

/// What best fit decreasing means, by trying every row for every document.
std::vector<std::int64_t> naive_best_fit_room(std::vector<std::int32_t> lengths, std::int64_t max_length) {
  std::stable_sort(lengths.begin(), lengths.end(), std::greater<>());
  std::vector<std::int64_t> room;
  for (const std::int32_t length : lengths) {
    auto best = room.end();
    for (auto row = room.begin(); row != room.end(); ++row) {
      if (*row >= length && (best == room.end() || *row < *best)) best = row;
    }
    if (best == room.end()) best = room.insert(room.end(), max_length);
    *best -= length;
  }
  std::sort(room.begin(), room.end());
  return room;
}

const std::vector<std::int32_t> golden_lengths = {5, 2, 3, 1};  // [1..5] [6,7] [8,9,10] [11]

}  // namespace

BOOST_AUTO_TEST_SUITE(packing)

BOOST_AUTO_TEST_CASE(golden_vectors_of_trl) {
  const auto packed = [](PackingStrategy strategy) {
    return numbered(pack(golden_lengths, 4, strategy), golden_lengths);
  };
  BOOST_TEST((packed(PackingStrategy::bfd) == Rows{{1, 2, 3, 4}, {8, 9, 10, 11}, {6, 7}}));
  BOOST_TEST((packed(PackingStrategy::bfd_split) == Rows{{1, 2, 3, 4}, {8, 9, 10, 5}, {6, 7, 11}}));
  BOOST_TEST((packed(PackingStrategy::wrapped) == Rows{{1, 2, 3, 4}, {5, 6, 7, 8}, {9, 10, 11}}));
  BOOST_TEST((packed(PackingStrategy::none) == Rows{{1, 2, 3, 4}, {6, 7}, {8, 9, 10}, {11}}));
}

BOOST_AUTO_TEST_CASE(no_row_overflows_and_no_piece_is_empty) {
  std::mt19937 generator(1);
  for (int round = 0; round < 50; ++round) {
    const std::int64_t max_length = 2 + generator() % 60;
    const std::vector<std::int32_t> lengths = random_lengths(generator, max_length);
    for (const auto strategy :
         {PackingStrategy::none, PackingStrategy::bfd, PackingStrategy::bfd_split, PackingStrategy::wrapped}) {
      const Packing packing = pack(lengths, max_length, strategy);
      for (const PackedRow row : packing.rows) {
        BOOST_TEST(!row.empty());
        BOOST_TEST(length_of(row) <= max_length);
        for (const Piece& piece : row) BOOST_TEST(piece.length > 0);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(every_token_is_packed_once_or_lies_past_max_length_where_documents_are_cut) {
  std::mt19937 generator(2);
  for (int round = 0; round < 50; ++round) {
    const std::int64_t max_length = 2 + generator() % 60;
    const std::vector<std::int32_t> lengths = random_lengths(generator, max_length);
    for (const auto strategy :
         {PackingStrategy::none, PackingStrategy::bfd, PackingStrategy::bfd_split, PackingStrategy::wrapped}) {
      std::map<std::pair<std::int64_t, std::int64_t>, int> times_packed;  // of (document, position)
      const Packing packing = pack(lengths, max_length, strategy);
      for (const PackedRow row : packing.rows) {
        for (const Piece& piece : row) {
          for (std::int64_t i = 0; i < piece.length; ++i) ++times_packed[{piece.document, piece.begin + i}];
        }
      }
      std::int64_t num_expected = 0;
      for (const std::int32_t length : lengths) {
        num_expected += truncates(strategy) ? std::min<std::int64_t>(length, max_length) : length;
      }
      BOOST_TEST(std::ssize(times_packed) == num_expected);
      for (const auto& [where, times] : times_packed) {
        BOOST_TEST(times == 1);
        BOOST_TEST(where.second < lengths[static_cast<std::size_t>(where.first)]);
        if (truncates(strategy)) BOOST_TEST(where.second < max_length);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(rows_are_as_full_as_trying_every_row_makes_them) {
  std::mt19937 generator(3);
  for (int round = 0; round < 50; ++round) {
    const std::int64_t max_length = 2 + generator() % 60;
    std::vector<std::int32_t> lengths(1 + generator() % 300);
    for (std::int32_t& length : lengths) {
      length = static_cast<std::int32_t>(1 + generator() % static_cast<unsigned>(max_length));
    }
    std::vector<std::int64_t> room;
    const Packing packing = pack(lengths, max_length, PackingStrategy::bfd);
    for (const PackedRow row : packing.rows) {
      room.push_back(max_length - length_of(row));
    }
    std::sort(room.begin(), room.end());
    BOOST_TEST(room == naive_best_fit_room(lengths, max_length));
  }
}

BOOST_AUTO_TEST_CASE(wrapped_rows_are_full_but_the_last_and_count_as_one_document) {
  const Packing packing = pack(golden_lengths, 4, PackingStrategy::wrapped);
  BOOST_TEST(document_lengths_of(packing.rows[1], PackingStrategy::wrapped) == std::vector<std::int32_t>{4});
  BOOST_TEST(document_lengths_of(packing.rows[2], PackingStrategy::wrapped) == std::vector<std::int32_t>{3});
  BOOST_TEST(document_lengths_of(packing.rows[1], PackingStrategy::bfd) == (std::vector<std::int32_t>{1, 2, 1}));
}

BOOST_AUTO_TEST_CASE(no_documents_make_no_rows) {
  for (const auto strategy : {PackingStrategy::none, PackingStrategy::bfd, PackingStrategy::bfd_split}) {
    BOOST_TEST(pack({}, 4, strategy).rows.empty());
    BOOST_TEST(pack(std::vector<std::int32_t>{0, 0}, 4, strategy).rows.empty());
  }
}

BOOST_AUTO_TEST_SUITE_END()
