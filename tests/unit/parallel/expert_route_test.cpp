// SPDX-License-Identifier: Apache-2.0
// Every row of every rank goes once to the rank that has its expert, and where it has a place there of its own, however
// uneven the choices are and however little memory there is.

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <random>
#include <vector>

#include "sft/parallel/expert_exchange.hpp"

namespace sft::parallel {

namespace {

using Run = ExpertRoute::Run;

std::vector<std::int32_t> random_counts(int ep_size, int num_experts, int most, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::int32_t> counts;
  for (int i = 0; i < ep_size * num_experts; ++i) {
    const bool is_empty = random() % 3 == 0;
    counts.push_back(is_empty ? 0 : static_cast<std::int32_t>(random() % static_cast<unsigned>(most)));
  }
  return counts;
}

/// The runs of one list that go to or come from a rank.
std::vector<Run> of_rank(const std::vector<Run>& runs, int rank) {
  std::vector<Run> found;
  std::ranges::copy_if(runs, std::back_inserter(found), [=](const Run& run) { return run.rank == rank; });
  return found;
}

/// Marks the rows of a run; whether none was marked before.
bool mark(std::vector<bool>& rows, std::int64_t begin, std::int64_t count) {
  bool was_free = true;
  for (std::int64_t row = begin; row < begin + count; ++row) {
    was_free = was_free && !rows.at(static_cast<std::size_t>(row));
    rows.at(static_cast<std::size_t>(row)) = true;
  }
  return was_free;
}

void check_routes(const std::vector<std::int32_t>& counts, int ep_size, const ExpertMemory& memory) {
  const int num_experts = static_cast<int>(counts.size()) / ep_size, local_experts = num_experts / ep_size;
  std::vector<ExpertRoute> routes;
  for (int rank = 0; rank < ep_size; ++rank) routes.emplace_back(counts, ep_size, rank, memory);
  for (int rank = 0; rank < ep_size; ++rank) {
    const ExpertRoute& route = routes[static_cast<std::size_t>(rank)];
    BOOST_TEST(route.rounds().size() == routes.front().rounds().size());
    std::int64_t num_home = 0;
    for (int e = 0; e < num_experts; ++e) num_home += counts[static_cast<std::size_t>(rank * num_experts + e)];
    std::vector<bool> left(static_cast<std::size_t>(num_home));
    for (std::size_t q = 0; q < route.rounds().size(); ++q) {
      const ExpertRoute::Round& round = route.rounds()[q];
      if (ep_size > 1) BOOST_TEST(round.num_rows() <= memory.max_arriving);
      std::vector<bool> arrived(static_cast<std::size_t>(round.num_rows()));
      std::int64_t next_expert = 0, next_row = 0;
      for (std::size_t p = 0; p < round.pieces.size(); ++p) {
        const ExpertRoute::Piece& piece = round.pieces[p];
        BOOST_TEST(piece.first_expert == next_expert);
        BOOST_TEST(piece.first_row == next_row);
        next_expert += piece.num_experts(), next_row += piece.num_rows();
        for (const auto* runs : {&piece.sent, &piece.stays}) {
          for (const Run& run : *runs) BOOST_TEST(mark(left, run.home, run.count));
        }
        for (const auto* runs : {&piece.received, &piece.stays, &piece.gaps}) {
          for (const Run& run : *runs) BOOST_TEST(mark(arrived, piece.first_row + run.arrived, run.count));
        }
        for (const std::int32_t offset : piece.offsets) BOOST_TEST(offset % memory.alignment == 0);
        for (int other = 0; other < ep_size; ++other) {
          const ExpertRoute::Round& of_other = routes[static_cast<std::size_t>(other)].rounds()[q];
          BOOST_TEST_REQUIRE(of_other.pieces.size() == round.pieces.size());
          const std::vector<Run> sent = of_rank(piece.sent, other);
          const std::vector<Run> received = of_rank(of_other.pieces[p].received, rank);
          BOOST_TEST_REQUIRE(sent.size() == received.size());
          for (std::size_t i = 0; i < sent.size(); ++i) BOOST_TEST(sent[i].count == received[i].count);
        }
      }
      BOOST_TEST(next_expert == local_experts);
      BOOST_TEST(std::ranges::all_of(arrived, [](bool is_filled) { return is_filled; }));
    }
    BOOST_TEST(std::ranges::all_of(left, [](bool is_sent) { return is_sent; }));
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(expert_route)

BOOST_AUTO_TEST_CASE(every_row_goes_once_and_has_a_place) {
  unsigned seed = 1;
  for (const int ep_size : {1, 2, 4}) {
    for (const std::int64_t alignment : {1, 16}) {
      for (const std::int64_t num_rows : {10, 100, 100000}) {
        const int num_experts = 8;
        const std::int64_t most = ExpertMemory::arriving(num_rows, num_experts / ep_size, ep_size, alignment);
        check_routes(random_counts(ep_size, num_experts, 40, seed++), ep_size, {most, alignment});
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(what_has_room_goes_in_one_round) {
  const std::vector<std::int32_t> counts{30, 0, 0, 0, 30, 0, 0, 0};
  const ExpertRoute enough(counts, 2, 0, {ExpertMemory::arriving(60, 2, 2, 1), 1});
  BOOST_TEST(enough.is_one_round());
  const ExpertRoute too_little(counts, 2, 1, {ExpertMemory::arriving(59, 2, 2, 1), 1});
  BOOST_TEST(too_little.rounds().size() == 2U);
}

BOOST_AUTO_TEST_CASE(what_travels_does_so_in_pieces) {
  const std::vector<std::int32_t> counts(8, 3);
  BOOST_TEST(ExpertRoute(counts, 2, 0, {100, 1}).rounds().front().pieces.size() == 2U);
  BOOST_TEST(ExpertRoute(counts, 1, 0, {0, 1}).rounds().front().pieces.size() == 1U);
  const std::vector<std::int32_t> of_one_each(4, 3);
  BOOST_TEST(ExpertRoute(of_one_each, 2, 0, {100, 1}).rounds().front().pieces.size() == 1U);
}

BOOST_AUTO_TEST_CASE(without_tokens_there_is_one_empty_round) {
  const ExpertRoute route(std::vector<std::int32_t>(8, 0), 2, 1, {ExpertMemory::arriving(1, 2, 2, 16), 16});
  BOOST_TEST(route.is_one_round());
  BOOST_TEST(route.rounds().front().num_rows() == 0);
}

BOOST_AUTO_TEST_CASE(rows_of_one_rank_stay_where_its_order_has_them) {
  const ExpertRoute route(std::vector<std::int32_t>{3, 17, 0, 16}, 1, 0, {0, 16});
  BOOST_TEST((route.rounds().front().pieces.front().offsets == std::vector<std::int32_t>{0, 16, 48, 48, 64}));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft::parallel
