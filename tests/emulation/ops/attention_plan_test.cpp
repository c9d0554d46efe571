// SPDX-License-Identifier: Apache-2.0
// Tiles of attention plans, and the memory they live in. No GPU.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstddef>
#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <stdexcept>
#include <vector>

#include "ops/cuda/attention_plan.hpp"
#include "sft/sequence/attention_schedule.hpp"

namespace sft::ops::cuda {

namespace {

using Spans = std::vector<sequence::AttentionSpan>;
using Pairs = std::multiset<std::pair<std::int64_t, std::int64_t>>;  // (query, key)

/// Pairs that see each other, by the definition of spans.
Pairs pairs_of(const Spans& spans) {
  Pairs pairs;
  for (const sequence::AttentionSpan& span : spans) {
    for (std::int64_t i = 0; i < span.q_len; ++i) {
      for (std::int64_t j = 0; j < span.k_len && j <= i + span.diagonal; ++j) {
        if (span.window > 0 && j <= i + span.diagonal - span.window) continue;
        pairs.insert({span.q_begin + i, span.k_begin + j});
      }
    }
  }
  return pairs;
}

/// The same, by the definition of tiles and ranges, own rows being queries or keys.
Pairs pairs_of(const std::vector<AttentionTile>& tiles, const std::vector<AttentionRange>& ranges, std::int64_t window,
               bool own_is_queries) {
  Pairs pairs;
  for (const AttentionTile& tile : tiles) {
    for (std::int64_t own = tile.begin; own < tile.begin + tile.count; ++own) {
      for (std::int32_t r = tile.range_begin; r < tile.range_end; ++r) {
        const AttentionRange& range = ranges[static_cast<std::size_t>(r)];
        for (std::int64_t j = 0; j < range.other_count; ++j) {
          const std::int64_t i = own - range.own_begin, query = own_is_queries ? i : j, key = own_is_queries ? j : i;
          if (key > query + range.diagonal) continue;
          if (window > 0 && key <= query + range.diagonal - window) continue;
          pairs.insert(own_is_queries ? std::pair{own, range.other_begin + j} : std::pair{range.other_begin + j, own});
        }
      }
    }
  }
  return pairs;
}

/// Every row is in one tile; tiles have the rows they may have.
void check_cover(const std::vector<AttentionTile>& tiles, std::int64_t num_rows) {
  std::vector<int> covered(static_cast<std::size_t>(num_rows));
  for (const AttentionTile& tile : tiles) {
    BOOST_TEST_REQUIRE((tile.count > 0 && tile.count <= attention_tile_rows && tile.begin >= 0));
    BOOST_TEST_REQUIRE(tile.begin + tile.count <= num_rows);
    for (std::int32_t row = tile.begin; row < tile.begin + tile.count; ++row) ++covered[static_cast<std::size_t>(row)];
  }
  BOOST_TEST(std::ranges::all_of(covered, [](int times) { return times == 1; }));
}

void check_lists(const Spans& spans, std::int64_t num_queries, std::int64_t num_keys) {
  const TileLists lists(spans, num_queries, num_keys);
  check_cover(lists.query_tiles, num_queries);
  check_cover(lists.key_tiles, num_keys);
  const Pairs expected = pairs_of(spans);
  BOOST_TEST((pairs_of(lists.query_tiles, lists.key_ranges, lists.window, true) == expected));
  BOOST_TEST((pairs_of(lists.key_tiles, lists.query_ranges, lists.window, false) == expected));
}

}  // namespace

BOOST_AUTO_TEST_SUITE(attention_plan)

BOOST_AUTO_TEST_CASE(tiles_have_the_pairs_of_the_spans) {
  check_lists({}, 0, 0);
  check_lists({}, 300, 5);
  check_lists({{0, 1, 0, 1, 0, 0}}, 1, 1);
  check_lists({{7, 300, 7, 300, 0, 0}, {307, 1, 307, 1, 0, 0}}, 310, 400);
  check_lists({{5, 20, 0, 30, 30, 0}, {5, 20, 30, 20, 0, 0}}, 40, 60);
  std::mt19937 random(1);
  for (int sp_size = 1; sp_size <= 4; ++sp_size) {
    const sequence::RowCut cut(96 * sp_size, sp_size);
    std::vector<std::int32_t> documents;
    for (std::int64_t left = cut.length(); left > 0; left -= documents.back()) {
      documents.push_back(static_cast<std::int32_t>(std::min<std::int64_t>(left, 1 + random() % 150)));
    }
    for (const SpRank rank : IndexRange<SpRank>(sp_size)) {
      for (const std::int64_t window : {0, 1, 20, 100}) {
        for (const sequence::AttentionRound& round : schedule_ring({documents}, cut, rank, window).rounds) {
          check_lists(round.spans, cut.local_length(), cut.local_length());
        }
        check_lists(schedule_all_gather({documents}, cut, rank, window).rounds.front().spans, cut.local_length(),
                    cut.length());
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(the_most_work_comes_first) {
  const TileLists lists({{0, 10, 0, 10, 0, 0}, {10, 500, 10, 500, 0, 1}}, 600, 600);
  BOOST_TEST(lists.query_tiles.front().begin == 10 + 3 * attention_tile_rows);
  BOOST_TEST(lists.key_tiles.front().begin == 10);
  BOOST_TEST(lists.query_tiles.back().begin == 510);
  BOOST_TEST(lists.key_tiles.back().begin == 510);
}

BOOST_AUTO_TEST_CASE(a_window_bounds_the_work_of_a_tile) {
  const TileLists lists({{0, 500, 0, 500, 0, 0, 20}, {500, 100, 500, 100, 0, 1, 20}}, 600, 600);
  BOOST_TEST(lists.window == 20);
  // A tile in the middle meets 128 + 19 rows, the first one and the short ones at the ends fewer.
  BOOST_TEST(lists.query_tiles.front().begin == attention_tile_rows);
  BOOST_TEST(lists.key_tiles.front().begin == 0);
  BOOST_TEST(lists.query_tiles.back().begin == 500);
}

BOOST_AUTO_TEST_CASE(a_window_that_hides_nothing_is_none) {
  BOOST_TEST(TileLists({{0, 20, 0, 20, 0, 0, 20}, {20, 7, 20, 7, 0, 1, 20}}, 100, 100).window == 0);
  BOOST_TEST(TileLists({{0, 20, 0, 20, 0, 0, 20}, {20, 21, 20, 21, 0, 1, 20}}, 100, 100).window == 20);
}

BOOST_AUTO_TEST_CASE(only_squares_and_rectangles_that_do_not_overlap) {
  const auto refuses = [](const Spans& spans) { BOOST_CHECK_THROW(TileLists(spans, 100, 100), std::logic_error); };
  refuses({{0, 10, 0, 10, 1, 0}});
  refuses({{0, 10, 0, 10, -1, 0}});
  refuses({{0, 10, 0, 20, 0, 0}});
  refuses({{0, 101, 0, 10, 10, 0}});
  refuses({{0, 10, 95, 10, 10, 0}});
  refuses({{-1, 10, 0, 10, 0, 0}});
  refuses({{0, 10, 0, 10, 0, 0}, {5, 10, 20, 10, 0, 0}});
  refuses({{0, 10, 0, 10, 0, 0}, {0, 5, 20, 5, 0, 0}});
  refuses({{0, 10, 0, 10, 0, 0}, {20, 10, 5, 10, 0, 0}});
  refuses({{0, 10, 0, 10, 0, 0, 3}, {20, 10, 20, 10, 0, 0, 4}});
  refuses({{0, 10, 0, 10, 0, 0, 3}, {20, 10, 20, 10, 0, 0}});
}

BOOST_AUTO_TEST_CASE(the_pool_hands_out_what_is_free) {
  alignas(256) static std::byte memory[4096];
  PlanPool pool(memory, sizeof(memory));
  BOOST_TEST(pool.take(0) == static_cast<void*>(nullptr));
  void* const first = pool.take(100);
  void* const second = pool.take(1000);
  void* const third = pool.take(2000);
  BOOST_TEST(first == static_cast<void*>(memory));
  BOOST_TEST(second == static_cast<void*>(memory + 256));
  BOOST_TEST(third == static_cast<void*>(memory + 1280));
  BOOST_CHECK_THROW((void)pool.take(1000), std::logic_error);
  pool.give_back(second);
  BOOST_CHECK_THROW((void)pool.take(1025), std::logic_error);
  BOOST_TEST(pool.take(1024) == second);
  pool.give_back(first);
  pool.give_back(third);
  BOOST_TEST(pool.take(256) == first);
  BOOST_TEST(pool.take(2816) == static_cast<void*>(memory + 1280));
}

BOOST_AUTO_TEST_CASE(calls_work_at_the_end_of_the_pool) {
  alignas(256) static std::byte memory[2048 + 100];
  PlanPool pool(memory, sizeof(memory));
  void* const plan = pool.take(512);
  BOOST_TEST(pool.working_place(300) == memory + 1536);
  BOOST_TEST(pool.working_place(1536) == memory + 512);
  BOOST_TEST(pool.working_place(300) == memory + 1536);
  BOOST_TEST(pool.working_place(1537) == static_cast<std::byte*>(nullptr));  // the plan is there
  BOOST_TEST(pool.working_place(4096) == static_cast<std::byte*>(nullptr));
  BOOST_TEST(pool.has_working_place());
  void* const next = pool.take(256);  // has come first wherever plans need it
  BOOST_TEST(next == static_cast<void*>(memory + 512));
  BOOST_TEST(!pool.has_working_place());
  pool.give_back(next);
  pool.give_back(plan);
  BOOST_TEST(pool.working_place(300) == static_cast<std::byte*>(nullptr));
  BOOST_TEST(pool.take(2000) == static_cast<void*>(memory));
}

BOOST_AUTO_TEST_CASE(lists_have_room_for_about_as_many_documents) {
  // 300 rows are three tiles, and one more for a document that ends within a tile, mostly.
  for (std::size_t num_tiles = 3; num_tiles <= 19; ++num_tiles) BOOST_TEST(rounded_entries(num_tiles, 3, 300) == 19u);
  BOOST_TEST(rounded_entries(20, 3, 300) == 35u);
  BOOST_TEST(rounded_entries(1, 0, 300) == 16u);
  BOOST_TEST(rounded_entries(300, 3, 300) == 300u);  // documents of a token
  BOOST_TEST(rounded_entries(1, 1, 10) == 10u);
  BOOST_TEST(rounded_entries(0, 0, 0) == 0u);
  BOOST_TEST(rounded_entries(12, 0, 10) == 12u);
}

/// The worst there is: a plan for documents of one token, twice, while the first is still there.
BOOST_AUTO_TEST_CASE(the_pool_suffices_for_documents_of_one_token) {
  constexpr std::int64_t num_tokens = 5000;
  Spans spans;
  for (std::int64_t i = 0; i < num_tokens; ++i) spans.push_back({i, 1, i, 1, 0, i});
  const auto bytes_of = [](const TileLists& lists) {
    return (lists.query_tiles.size() + lists.key_tiles.size()) * sizeof(AttentionTile) +
           (lists.key_ranges.size() + lists.query_ranges.size()) * sizeof(AttentionRange);
  };
  const std::size_t plan_bytes = bytes_of(TileLists(spans, num_tokens, num_tokens));
  const std::size_t pool_bytes = plan_pool_bytes({.tokens = num_tokens}, {});
  alignas(256) static std::byte anywhere[256];
  PlanPool pool(anywhere, pool_bytes);  // never read nor written
  void* plan = pool.take(plan_bytes / 3);
  for (int i = 0; i < 5; ++i) {
    void* const next = pool.take(plan_bytes / static_cast<std::size_t>(i % 2 + 1));
    pool.give_back(plan);
    plan = next;
  }
  BOOST_TEST(pool_bytes < 8 * plan_bytes);
  BOOST_TEST(plan_pool_bytes({.tokens = num_tokens}, {.num_plans = 8}) > pool_bytes);
  BOOST_TEST(plan_pool_bytes({.tokens = num_tokens}, {.plan_keys = 8 * num_tokens}) > pool_bytes);
  BOOST_TEST(plan_pool_bytes({.tokens = num_tokens}, {.num_plans = 8, .repeats = true}) >
             plan_pool_bytes({.tokens = num_tokens}, {.num_plans = 8}));
}

/// Documents that are spread over the plans of a ring so that each list is rounded up as far as can be.
BOOST_AUTO_TEST_CASE(the_pool_suffices_for_what_plans_of_a_ring_round_up) {
  constexpr std::int64_t num_tokens = 5000, num_plans = 8, num_whole = 40;
  constexpr std::size_t documents_of_plan = 513;
  static_assert(num_plans * documents_of_plan < num_tokens);
  const std::size_t entries = 2 * rounded_entries(num_whole + documents_of_plan, num_whole, num_tokens) +
                              2 * rounded_entries(documents_of_plan, 0, num_tokens);
  const std::size_t plan_bytes = entries * sizeof(AttentionTile);
  alignas(256) static std::byte anywhere[256];
  PlanPool pool(anywhere, plan_pool_bytes({.tokens = num_tokens},
                                          {.num_plans = num_plans, .repeats = true}));  // never read nor written
  for (int i = 0; i < 2 * num_plans; ++i) BOOST_TEST(pool.take(plan_bytes) != static_cast<void*>(nullptr));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft::ops::cuda
