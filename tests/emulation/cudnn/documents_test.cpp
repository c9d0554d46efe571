// SPDX-License-Identifier: Apache-2.0
// Which spans of a plan are documents for a library.
#include "ops/cuda/cudnn/documents.hpp"

#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "ops/cuda/cudnn/working_memory.hpp"
#include "sft/sequence/attention_schedule.hpp"

namespace sft::ops::cuda::cudnn {

namespace {

using Spans = std::vector<sequence::AttentionSpan>;

/// Documents as "q_begin+q_len x k_begin+k_len", a bar between calls.
std::string found(const Spans& spans, std::int64_t num_queries, std::int64_t num_keys) {
  const auto documents = find_documents(spans, num_queries, num_keys);
  if (!documents) return "none";
  std::string text;
  for (const auto& call : documents->calls) {
    if (!text.empty()) text += " | ";
    for (const auto& [queries, keys] : call) {
      if (!text.empty() && text.back() != ' ') text += ", ";
      text += std::to_string(queries.begin) + "+" + std::to_string(queries.count) + " x " + std::to_string(keys.begin) +
              "+" + std::to_string(keys.count);
    }
  }
  return text;
}

/// Of rank 1 of 2, whose chunks are the second and the third quarter of the row.
std::string gathered(const std::vector<std::int32_t>& lengths, std::int64_t row, std::int64_t window = 0) {
  const sequence::RowCut cut(row, 2);
  const auto schedule = sequence::schedule_all_gather({lengths}, cut, SpRank::from(1), window);
  return found(schedule.rounds.front().spans, schedule.num_tokens, schedule.num_keys);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(documents_of_plans)

BOOST_AUTO_TEST_CASE(each_chunk_of_queries_is_a_call) {
  BOOST_TEST(gathered({400}, 400) == "0+100 x 0+200 | 100+100 x 0+300");
  BOOST_TEST(gathered({150, 10, 240}, 400) == "0+50 x 0+150, 50+10 x 150+10, 60+40 x 160+40 | 100+100 x 160+140");
  BOOST_TEST(gathered({150, 100}, 400) == "0+50 x 0+150, 50+50 x 150+50 | 100+50 x 150+100");
  BOOST_TEST(gathered({120}, 400) == "0+20 x 0+120");
  BOOST_TEST(gathered({90}, 400) == "none");
  // Chunks that are neighbours, and nothing reaches over the border between them.
  BOOST_TEST(gathered({200, 200}, 400) == "0+100 x 0+200, 100+100 x 200+100");
}

BOOST_AUTO_TEST_CASE(keys_that_a_window_hides_are_no_documents) {
  BOOST_TEST(gathered({400}, 400, 30) == "0+100 x 71+129 | 100+100 x 171+129");
  BOOST_TEST(gathered({400}, 400, 1) == "0+100 x 100+100, 100+100 x 200+100");
  BOOST_TEST(gathered({90, 310}, 400, 30) == "0+100 x 90+110 | 100+100 x 171+129");
  BOOST_TEST(find_documents({{0, 8, 0, 16, 8, 0, 4}}, 8, 16)->window == 4);
}

BOOST_AUTO_TEST_CASE(spans_that_are_none) {
  BOOST_TEST(found({{0, 8, 0, 16, 8, 0}}, 8, 16) == "0+8 x 0+16");
  BOOST_TEST(found({{0, 8, 0, 16, 16, 0}}, 8, 16) == "none");                     // every query sees every key
  BOOST_TEST(found({{0, 8, 0, 7, 8, 0}, {0, 8, 8, 8, 0, 0}}, 8, 16) == "none");   // a gap
  BOOST_TEST(found({{0, 8, 0, 8, 16, 0}, {0, 8, 8, 8, 0, 0}}, 8, 16) == "none");  // another place in the document
  Spans apart;
  for (std::int64_t i = 0; i < 3; ++i) apart.push_back({8 * i, 8, 32 * i, 16, 8, i});
  BOOST_TEST(found(apart, 24, 96) == "none");  // three calls
  apart.pop_back();
  BOOST_TEST(found(apart, 24, 96) == "0+8 x 0+16 | 8+8 x 32+16");
}

BOOST_AUTO_TEST_CASE(sizes_are_rounded) {
  const auto tails = find_documents({{0, 8, 0, 300, 292, 0}, {8, 8, 300, 8, 0, 1}, {16, 1, 308, 1, 0, 2}}, 17, 400);
  BOOST_TEST_REQUIRE(tails.has_value());
  const DocumentSizes sizes = tails->sizes(17, 400);
  BOOST_TEST(sizes.documents == 4);
  BOOST_TEST(sizes.longest == 128);
  BOOST_TEST(sizes.longest_keys == 512);
  BOOST_TEST(sizes.tokens == 256);
  BOOST_TEST(sizes.key_tokens == 512);
}

// Blocks of keys that are not there count, too.
BOOST_AUTO_TEST_CASE(many_short_documents_beside_long_keys_are_none) {
  Spans spans = {{0, 1, 0, 4096, 4095, 0}};
  for (std::int64_t i = 1; i < 64; ++i) spans.push_back({i, 1, 4095 + i, 1, 0, i});
  BOOST_TEST(64 * 4096 > max_blocks_of_documents(4200));
  BOOST_TEST(64 * 128 <= max_blocks_of_documents(4096));  // of queries
  BOOST_TEST(found(spans, 4096, 4200) == "none");
  BOOST_TEST(found({spans.begin(), spans.begin() + 2}, 4096, 4200) != "none");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft::ops::cuda::cudnn
