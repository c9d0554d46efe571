// SPDX-License-Identifier: Apache-2.0
// The zigzag cut: every token of a row has one holder, and what a rank holds is what the contract says.

#include "sft/sequence/row_cut.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <set>
#include <stdexcept>

using namespace sft::sequence;

BOOST_AUTO_TEST_SUITE(row_cut)

BOOST_AUTO_TEST_CASE(rows_are_padded_to_two_chunks_a_rank) {
  BOOST_TEST(row_multiple(1) == 1);
  BOOST_TEST(row_multiple(2) == 4);
  BOOST_TEST(row_multiple(6) == 12);
  BOOST_TEST(padded_row_length(7, 1) == 7);
  BOOST_TEST(padded_row_length(7, 2) == 8);
  BOOST_TEST(padded_row_length(8, 2) == 8);
  BOOST_TEST(padded_row_length(1, 16) == 32);
  BOOST_TEST(padded_row_length((std::int64_t{1} << 40) + 1, 3) % 6 == 0);
}

BOOST_AUTO_TEST_CASE(the_tokens_of_a_rank_are_a_multiple) {
  BOOST_TEST(row_multiple(1, 3) == 3);
  BOOST_TEST(row_multiple(2, 3) == 12);
  BOOST_TEST(row_multiple(2, 4) == 8);
  BOOST_TEST(padded_row_length(7, 1, 4) == 8);
  BOOST_TEST(padded_row_length(9, 2, 4) == 16);
  BOOST_CHECK_THROW((void)row_multiple(2, 0), std::logic_error);
  for (const int sp_size : {1, 2, 3}) {
    for (const int multiple : {1, 2, 3, 4, 7}) {
      for (std::int64_t tokens = 0; tokens <= 301; ++tokens) {
        const std::int64_t length = joined_row_length(tokens, 301, sp_size, multiple);
        BOOST_TEST_REQUIRE(length >= std::max<std::int64_t>(tokens, 1));
        BOOST_TEST_REQUIRE(length % row_multiple(sp_size, multiple) == 0);
        BOOST_TEST_REQUIRE(length <= padded_row_length(301, sp_size, multiple));
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(joined_rows_have_few_lengths_and_little_padding) {
  for (const int sp_size : {1, 2, 3, 8}) {
    const std::int64_t max_tokens = std::int64_t{1 << 14} * sp_size + 7, most = padded_row_length(max_tokens, sp_size);
    std::set<std::int64_t> lengths;
    double padding = 0.0;
    std::int64_t count = 0;
    for (std::int64_t tokens = max_tokens / 2 + 1; tokens <= max_tokens; tokens += 5) {
      const std::int64_t length = joined_row_length(tokens, max_tokens, sp_size);
      BOOST_TEST_REQUIRE(length >= tokens);
      BOOST_TEST_REQUIRE(length <= most);
      BOOST_TEST_REQUIRE(length % row_multiple(sp_size) == 0);
      BOOST_TEST_REQUIRE(static_cast<double>(length) <= 1.07 * static_cast<double>(tokens));
      lengths.insert(length);
      padding += static_cast<double>(length) / static_cast<double>(tokens) - 1.0;
      ++count;
    }
    BOOST_TEST(lengths.size() <= 18U);
    BOOST_TEST(padding / static_cast<double>(count) < 0.025);
  }
}

BOOST_AUTO_TEST_CASE(few_tokens_are_hardly_padded_and_none_have_the_least_length) {
  for (std::int64_t tokens = 1; tokens <= 31; ++tokens) BOOST_TEST(joined_row_length(tokens, 100, 1) == tokens);
  BOOST_TEST(joined_row_length(0, 100, 1) == 1);
  BOOST_TEST(joined_row_length(0, 0, 3) == 6);
  BOOST_TEST(joined_row_length(5, 100, 3) == 6);
  BOOST_TEST(joined_row_length(99, 100, 1) == 100);
  BOOST_TEST(joined_row_length(100, 101, 2) == 100);
}

BOOST_AUTO_TEST_CASE(every_token_has_one_holder) {
  for (const int sp_size : {1, 2, 3, 5, 8}) {
    const RowCut cut(6 * row_multiple(sp_size), sp_size);
    std::vector<int> holders(static_cast<std::size_t>(cut.length()));
    for (int rank = 0; rank < sp_size; ++rank) {
      std::int64_t next = 0;
      for (const Chunk& chunk : cut.chunks(rank)) {
        BOOST_TEST(chunk.local == next);
        next += chunk.length;
        for (std::int64_t i = 0; i < chunk.length; ++i) ++holders.at(static_cast<std::size_t>(chunk.global + i));
      }
      BOOST_TEST(next == cut.local_length());
    }
    BOOST_TEST((holders == std::vector<int>(holders.size(), 1)));
  }
}

BOOST_AUTO_TEST_CASE(a_rank_holds_an_early_and_a_late_chunk) {
  const std::vector<Chunk> chunks = RowCut(48, 3).chunks(1);
  BOOST_REQUIRE(chunks.size() == 2U);
  BOOST_TEST(chunks[0].global == 8);
  BOOST_TEST(chunks[1].global == 32);
  BOOST_TEST(chunks[1].local == 8);
  BOOST_TEST(RowCut(7, 1).chunks(0).size() == 1U);
}

BOOST_AUTO_TEST_CASE(a_row_longer_than_32_bits_is_cut_like_any_other) {
  const std::int64_t length = std::int64_t{1} << 36;
  const Chunk last = RowCut(length, 4).chunks(0).back();
  BOOST_TEST(last.global == length / 8 * 7);
  BOOST_TEST(last.length == length / 8);
}

BOOST_AUTO_TEST_CASE(what_does_not_divide_is_a_bug) {
  BOOST_CHECK_THROW(RowCut(7, 2), std::logic_error);
  BOOST_CHECK_THROW(RowCut(6, 2), std::logic_error);
  BOOST_CHECK_THROW(RowCut(8, 0), std::logic_error);
  BOOST_CHECK_THROW((void)RowCut(8, 2).chunks(2), std::logic_error);
  BOOST_CHECK_THROW((void)RowCut(8, 2).chunks(-1), std::logic_error);
}

BOOST_AUTO_TEST_SUITE_END()
