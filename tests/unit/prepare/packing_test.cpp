// SPDX-License-Identifier: Apache-2.0
#include "sft/prepare/packing.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <map>
#include <numeric>
#include <random>

using namespace sft::prepare;

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

BOOST_AUTO_TEST_CASE(among_equally_full_rows_the_first_to_become_so_is_taken) {
  const std::vector<std::int32_t> of_three_lengths = {5, 5, 5, 2, 2, 1};
  BOOST_TEST((numbered(pack(of_three_lengths, 8, PackingStrategy::bfd), of_three_lengths) ==
              Rows{{1, 2, 3, 4, 5, 16, 17, 20}, {6, 7, 8, 9, 10, 18, 19}, {11, 12, 13, 14, 15}}));
  const std::vector<std::int32_t> longest_first = {3, 3, 1, 1, 2, 2};
  BOOST_TEST((numbered(pack(longest_first, 4, PackingStrategy::bfd), longest_first) ==
              Rows{{1, 2, 3, 7}, {4, 5, 6, 8}, {9, 10, 11, 12}}));
}

BOOST_AUTO_TEST_CASE(blocks_are_packed_apart_and_shards_move_their_borders) {
  std::mt19937 generator(5);
  std::vector<std::int32_t> lengths(2500);
  for (std::int32_t& length : lengths) length = static_cast<std::int32_t>(1 + generator() % 40);
  // The first document of each row that begins a block.
  const auto block_borders = [&](const PackingBlocks& blocks) {
    const Packing packing = pack_blocks(lengths, 64, PackingStrategy::bfd, blocks);
    std::vector<std::int64_t> last(1, 0);
    std::int64_t num_documents = 0;
    for (const PackedRow row : packing.rows) {
      for (const Piece& piece : row) last.back() = std::max(last.back(), piece.document);
      num_documents += std::ssize(row);
      if (num_documents == last.back() + 1) last.push_back(last.back());  // a block is complete
    }
    last.pop_back();
    return last;
  };
  BOOST_TEST((block_borders({}) == std::vector<std::int64_t>{999, 1999, 2499}));
  BOOST_TEST((block_borders({.num_shards = 2}) == std::vector<std::int64_t>{999, 1249, 2249, 2499}));
  BOOST_TEST((block_borders({.num_shards = 3}) == std::vector<std::int64_t>{833, 1666, 2499}));
  const Packing whole = pack_blocks(lengths, 64, PackingStrategy::bfd, {.block_size = PackingBlocks::whole});
  BOOST_TEST((numbered(whole, lengths) == numbered(pack(lengths, 64, PackingStrategy::bfd), lengths)));
  BOOST_TEST(pack_blocks({}, 64, PackingStrategy::bfd, {.num_shards = 4}).rows.empty());
}

BOOST_AUTO_TEST_CASE(balanced_rows_have_more_even_work_in_as_many_rows) {
  std::mt19937 generator(6);
  std::lognormal_distribution<double> distribution(4.0, 0.6);
  std::vector<std::int32_t> lengths(2000);
  for (std::int32_t& length : lengths) length = std::clamp(static_cast<std::int32_t>(distribution(generator)), 1, 400);
  // Standard deviation over mean of the sum of squared lengths.
  const auto unevenness = [](const Packing& packing) {
    double sum = 0.0, sum_of_squares = 0.0;
    for (const PackedRow row : packing.rows) {
      double work = 0.0;
      for (const Piece& piece : row) work += static_cast<double>(piece.length) * piece.length;
      sum += work;
      sum_of_squares += work * work;
    }
    const auto count = static_cast<double>(packing.rows.size());
    return std::sqrt(sum_of_squares / count - (sum / count) * (sum / count)) / (sum / count);
  };
  const Packing plain = pack(lengths, 1024, PackingStrategy::bfd);
  const Packing balanced = pack(lengths, 1024, PackingStrategy::balanced);
  BOOST_TEST(balanced.rows.size() <= plain.rows.size() + plain.rows.size() / 50);
  BOOST_TEST(unevenness(balanced) < 0.5 * unevenness(plain));
}

BOOST_AUTO_TEST_CASE(no_row_overflows_and_no_piece_is_empty) {
  std::mt19937 generator(1);
  for (int round = 0; round < 50; ++round) {
    const std::int64_t max_length = 2 + generator() % 60;
    const std::vector<std::int32_t> lengths = random_lengths(generator, max_length);
    for (const auto strategy : {PackingStrategy::none, PackingStrategy::bfd, PackingStrategy::bfd_split,
                                PackingStrategy::wrapped, PackingStrategy::balanced}) {
      const Packing packing = pack(lengths, max_length, strategy);
      for (const PackedRow row : packing.rows) {
        BOOST_TEST(!row.empty());
        BOOST_TEST(length_of(row) <= max_length);
        for (const Piece& piece : row) BOOST_TEST(piece.length > 0);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(every_token_is_packed_once_or_lies_past_max_length_where_documents_are_cut,
                     *boost::unit_test::label("long")) {
  std::mt19937 generator(2);
  for (int round = 0; round < 50; ++round) {
    const std::int64_t max_length = 2 + generator() % 60;
    const std::vector<std::int32_t> lengths = random_lengths(generator, max_length);
    for (const auto strategy : {PackingStrategy::none, PackingStrategy::bfd, PackingStrategy::bfd_split,
                                PackingStrategy::wrapped, PackingStrategy::balanced}) {
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
