// SPDX-License-Identifier: Apache-2.0
// Schedules against the definition: a query sees the keys of its own document up to itself, each once.

#include "sft/sequence/attention_schedule.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <utility>

namespace {

using namespace sft::sequence;
using sft::IndexedVector;
using sft::IndexRange;
using sft::SpRank;

const RowDocuments documents = {{1, 33, 7, 20, 11}, {72}, {5, 5, 5}, {}, {24, 24, 24}};
constexpr std::int64_t length = 72;

/// Global place (row, position) of a rank's local token.
std::pair<std::int64_t, std::int64_t> place(std::int64_t local, int sp_size, int rank) {
  const std::int64_t local_length = length / sp_size;
  const std::int64_t row = local / local_length;
  const std::int64_t at = local % local_length;
  if (sp_size == 1) return {row, at};
  const std::int64_t chunk = length / (2 * sp_size);
  return {row, at < chunk ? rank * chunk + at : (2 * sp_size - 1 - rank) * chunk + at - chunk};
}

int document_of(std::int64_t row, std::int64_t position) {
  std::int64_t end = 0;
  for (std::size_t d = 0; d < documents[static_cast<std::size_t>(row)].size(); ++d) {
    end += documents[static_cast<std::size_t>(row)][d];
    if (position < end) return static_cast<int>(d);
  }
  return -1;
}

std::vector<AttentionRound> rounds_of(const RowDocuments& rows, int sp_size, SpRank rank) {
  return schedule_ring(rows, {length, sp_size}, rank).rounds;
}

using Pairs = std::set<std::pair<std::int64_t, std::int64_t>>;  // (local query, key in the row)

/// What spans say, which all have this window; `place_of` gives the place in the row of a row of the keys.
template <class PlaceOf>
Pairs pairs_of(const std::vector<AttentionSpan>& spans, std::int64_t window, const PlaceOf& place_of) {
  Pairs pairs;
  for (const AttentionSpan& span : spans) {
    BOOST_TEST(span.window == window);
    for (std::int64_t i = 0; i < span.q_len; ++i) {
      for (std::int64_t j = 0; j < span.k_len; ++j) {
        if (j > i + span.diagonal || (window > 0 && j <= i + span.diagonal - window)) continue;
        BOOST_TEST(pairs.insert({span.q_begin + i, place_of(span.k_begin + j)}).second);
      }
    }
  }
  return pairs;
}

/// What the definition says of the queries of `rank` in a row of documents.
Pairs pairs_within(const std::vector<std::int32_t>& row, std::int64_t window, int sp_size, int rank) {
  std::vector<int> document_at(length, -1);
  std::int64_t begin = 0;
  for (std::size_t d = 0; d < row.size(); begin += row[d], ++d) {
    for (std::int64_t i = 0; i < row[d]; ++i) document_at[static_cast<std::size_t>(begin + i)] = static_cast<int>(d);
  }
  Pairs pairs;
  for (std::int64_t local = 0; local < length / sp_size; ++local) {
    const std::int64_t query = place(local, sp_size, rank).second;
    const int document = document_at[static_cast<std::size_t>(query)];
    for (std::int64_t key = std::max<std::int64_t>(0, query - window + 1); document >= 0 && key <= query; ++key) {
      if (document_at[static_cast<std::size_t>(key)] == document) pairs.insert({local, key});
    }
  }
  return pairs;
}

/// A row of documents of random lengths, some of it padding.
std::vector<std::int32_t> random_row(std::mt19937& generator) {
  std::vector<std::int32_t> lengths;
  for (std::int64_t left = length - static_cast<std::int64_t>(generator() % 10); left > 0; left -= lengths.back()) {
    lengths.push_back(static_cast<std::int32_t>(std::min<std::int64_t>(left, 1 + generator() % 30)));
  }
  return lengths;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(attention_schedule)

BOOST_AUTO_TEST_CASE(every_visible_pair_is_computed_once) {
  for (const int sp_size : {1, 2, 3, 4, 6}) {
    std::map<std::pair<std::int64_t, std::int64_t>, std::multiset<std::int64_t>> seen;
    for (const SpRank rank : IndexRange<SpRank>(sp_size)) {
      for (const AttentionRound& round : rounds_of(documents, sp_size, rank)) {
        for (const AttentionSpan& span : round.spans) {
          for (std::int64_t i = 0; i < span.q_len; ++i) {
            const auto q = place(span.q_begin + i, sp_size, rank);
            for (std::int64_t j = 0; j < span.k_len && j <= i + span.diagonal; ++j) {
              const auto k = place(span.k_begin + j, sp_size, round.from);
              BOOST_REQUIRE(k.first == q.first);
              seen[q].insert(k.second);
            }
          }
        }
      }
    }
    for (std::int64_t row = 0; row < std::ssize(documents); ++row) {
      for (std::int64_t q = 0; q < length; ++q) {
        std::multiset<std::int64_t> expected;
        for (std::int64_t k = 0; k <= q; ++k) {
          if (document_of(row, q) >= 0 && document_of(row, k) == document_of(row, q)) expected.insert(k);
        }
        BOOST_TEST_CONTEXT("sp " << sp_size << " row " << row << " query " << q) {
          BOOST_TEST((seen[std::pair{row, q}] == expected));
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(a_span_is_a_causal_square_or_full) {
  std::mt19937 generator(11);
  for (const int sp_size : {1, 2, 3, 4, 6}) {
    std::int64_t num_squares = 0, num_full = 0;
    for (int trial = 0; trial < 50; ++trial) {
      const RowDocuments rows = {random_row(generator), random_row(generator)};
      for (const SpRank rank : IndexRange<SpRank>(sp_size)) {
        for (const AttentionRound& round : rounds_of(rows, sp_size, rank)) {
          for (const AttentionSpan& span : round.spans) {
            const bool is_square = span.diagonal == 0 && span.q_len == span.k_len;
            const bool is_full = span.diagonal >= span.k_len;
            BOOST_TEST((is_square != is_full));
            // Only own keys have a diagonal.
            if (is_square) BOOST_TEST(round.from == rank);
            num_squares += is_square ? 1 : 0;
            num_full += is_full ? 1 : 0;
          }
        }
      }
    }
    BOOST_TEST(num_squares > 0);
    BOOST_TEST((num_full > 0) == (sp_size > 1));
  }
}

BOOST_AUTO_TEST_CASE(lanes_share_nothing_and_do_not_interleave) {
  std::mt19937 generator(12);
  for (const int sp_size : {1, 2, 3, 4, 6}) {
    for (int trial = 0; trial < 20; ++trial) {
      const RowDocuments rows = {random_row(generator), random_row(generator)};
      for (const AttentionRound& round : rounds_of(rows, sp_size, SpRank::from(trial % sp_size))) {
        std::map<std::int64_t, std::pair<std::int64_t, std::int64_t>> keys, queries;  // first and end, by lane
        const auto widen = [](auto& extents, std::int64_t lane, std::int64_t begin, std::int64_t end) {
          auto& extent = extents.try_emplace(lane, begin, end).first->second;
          extent = {std::min(extent.first, begin), std::max(extent.second, end)};
        };
        for (const AttentionSpan& span : round.spans) {
          widen(queries, span.lane, span.q_begin, span.q_begin + span.q_len);
          widen(keys, span.lane, span.k_begin, span.k_begin + span.k_len);
        }
        for (const auto& extents : {keys, queries}) {
          std::int64_t end = 0;
          for (const auto& [lane, extent] : extents) {
            BOOST_TEST(extent.first >= end);
            end = extent.second;
          }
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(senders_and_receivers_agree) {
  for (const int sp_size : {2, 3, 4, 6}) {
    IndexedVector<SpRank, std::vector<AttentionRound>> ranks;
    for (const SpRank rank : IndexRange<SpRank>(sp_size)) ranks.push_back(rounds_of(documents, sp_size, rank));
    for (const SpRank rank : ranks.indices()) {
      for (std::size_t d = 1; d < ranks[rank].size(); ++d) {
        const AttentionRound& round = ranks[rank][d];
        BOOST_TEST(ranks[round.to][d].from == rank);
        BOOST_TEST((ranks[round.to][d].receives == round.sends));
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(short_documents_exchange_nothing) {
  // Chunks of 9 tokens and documents of 9: no document spans two chunks.
  const RowDocuments aligned = {{9, 9, 9, 9, 9, 9, 9, 9}};
  for (const SpRank rank : IndexRange<SpRank>(4)) {
    for (const AttentionRound& round : rounds_of(aligned, 4, rank)) {
      BOOST_TEST(!round.sends.any());
      BOOST_TEST(!round.receives.any());
    }
  }
}

BOOST_AUTO_TEST_CASE(zigzag_balances_causal_work) {
  // One document over the row: every rank computes the same number of pairs.
  const RowDocuments whole = {{72}};
  std::vector<std::int64_t> pairs;
  for (const SpRank rank : IndexRange<SpRank>(4)) {
    std::int64_t n = 0;
    for (const AttentionRound& round : rounds_of(whole, 4, rank)) {
      for (const AttentionSpan& span : round.spans) {
        for (std::int64_t i = 0; i < span.q_len; ++i) n += std::min(span.k_len, i + span.diagonal + 1);
      }
    }
    pairs.push_back(n);
  }
  for (const std::int64_t n : pairs) BOOST_TEST(n == pairs.front());
}

BOOST_AUTO_TEST_CASE(chunks_that_are_seen_are_those_that_spans_read) {
  std::mt19937 generator(14);
  for (const int sp_size : {2, 3, 4, 6}) {
    const RowCut cut(length, sp_size);
    for (int trial = 0; trial < 20; ++trial) {
      const RowDocuments row = {random_row(generator)};
      for (const SpRank q_rank : IndexRange<SpRank>(sp_size)) {
        for (const SpRank k_rank : IndexRange<SpRank>(sp_size)) {
          ChunkPair read;
          for (const AttentionSpan& span : attention_spans(row, cut, q_rank, k_rank)) {
            (span.k_begin < length / (2 * sp_size) ? read.front : read.back) = true;
          }
          BOOST_TEST((chunks_seen(row, cut, q_rank, k_rank) == read));
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(gathered_keys_are_those_of_the_ring_in_the_order_of_the_row) {
  std::mt19937 generator(15);
  for (const int sp_size : {1, 2, 3, 4, 6}) {
    const RowCut cut(length, sp_size);
    for (int trial = 0; trial < 20; ++trial) {
      const RowDocuments row = {random_row(generator)};
      const SpRank rank = SpRank::from(trial % sp_size);
      const AttentionSchedule ring = schedule_ring(row, cut, rank), gathered = schedule_all_gather(row, cut, rank);
      std::set<std::pair<std::int64_t, std::int64_t>> of_ring, of_gathered;  // local query, key in the row
      for (const AttentionRound& round : ring.rounds) {
        for (const AttentionSpan& span : round.spans) {
          for (std::int64_t i = 0; i < span.q_len; ++i) {
            for (std::int64_t j = 0; j < std::min(span.k_len, i + span.diagonal + 1); ++j) {
              of_ring.insert({span.q_begin + i, place(span.k_begin + j, sp_size, round.from).second});
            }
          }
        }
      }
      std::int64_t num_pairs = 0;
      std::map<std::int64_t, std::int64_t> end_of_range;  // of keys, by their begin: ranges are equal or apart
      for (const AttentionSpan& span : gathered.rounds.front().spans) {
        BOOST_TEST(end_of_range.try_emplace(span.k_begin, span.k_begin + span.k_len).first->second ==
                   span.k_begin + span.k_len);
        for (std::int64_t i = 0; i < span.q_len; ++i) {
          for (std::int64_t j = 0; j < std::min(span.k_len, i + span.diagonal + 1); ++j, ++num_pairs) {
            of_gathered.insert({span.q_begin + i, span.k_begin + j});
          }
        }
      }
      std::int64_t end = 0;
      for (const auto& [begin, range_end] : end_of_range) {
        BOOST_TEST(begin >= end);
        end = range_end;
      }
      BOOST_TEST((of_gathered == of_ring));
      BOOST_TEST(num_pairs == std::ssize(of_gathered));
      BOOST_TEST(gathered.num_tokens == ring.num_tokens);
      for (std::size_t d = 0; d < ring.rounds.size(); ++d) {
        BOOST_TEST((gathered.rounds[d].sends == ring.rounds[d].sends));
        BOOST_TEST((gathered.rounds[d].receives == ring.rounds[d].receives));
        if (d > 0) BOOST_TEST(gathered.rounds[d].spans.empty());
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(neighbours_that_exchange_heads_are_one_place_of_the_ring) {
  const RowDocuments row = {{5, 31, 1, 2, 33}};
  const RowCut cut(length, 6);
  for (const int ulysses_size : {1, 2, 3, 6}) {
    const int ring_size = 6 / ulysses_size;
    const RowCut ring_cut(length, ring_size);
    for (const SpRank rank : IndexRange<SpRank>(6)) {
      const AttentionSchedule schedule = make_schedule({AttentionMethod::Keys::ring, ulysses_size}, row, cut, rank);
      const AttentionSchedule ring = schedule_ring(row, ring_cut, SpRank::from(rank / ulysses_size));
      BOOST_TEST(schedule.num_tokens == length / ring_size);
      BOOST_TEST_REQUIRE(schedule.rounds.size() == ring.rounds.size());
      for (std::size_t d = 0; d < ring.rounds.size(); ++d) {
        BOOST_TEST((schedule.rounds[d].spans == ring.rounds[d].spans));
        BOOST_TEST(schedule.rounds[d].to == ring.rounds[d].to * ulysses_size + rank % ulysses_size);
        BOOST_TEST(schedule.rounds[d].from == ring.rounds[d].from * ulysses_size + rank % ulysses_size);
      }
      // The neighbours' chunks, put together in the order of the row, are those of their place.
      std::vector<Chunk> together;
      for (int i = 0; i < ulysses_size; ++i) {
        for (const Chunk& chunk : cut.chunks(rank / ulysses_size * ulysses_size + i)) together.push_back(chunk);
      }
      std::ranges::sort(together, {}, &Chunk::global);
      std::int64_t local = 0;
      for (const Chunk& chunk : together) {
        const std::vector<Chunk> places = ring_cut.chunks(rank / ulysses_size);
        BOOST_TEST(std::ranges::any_of(places, [&](const Chunk& place) {
          return local >= place.local && local < place.local + place.length &&
                 chunk.global == place.global + local - place.local;
        }));
        local += chunk.length;
      }
    }
  }
  BOOST_CHECK_THROW((void)make_schedule({AttentionMethod::Keys::ring, 4}, row, cut, 0), std::logic_error);
  BOOST_CHECK_THROW((void)make_schedule({AttentionMethod::Keys::all_gather, 2}, row, cut, 0), std::logic_error);
}

BOOST_AUTO_TEST_CASE(windows_leave_the_pairs_within_them) {
  std::mt19937 generator(16);
  for (const int sp_size : {1, 2, 3, 4, 6}) {
    const RowCut cut(length, sp_size);
    for (int trial = 0; trial < 40; ++trial) {
      const RowDocuments row = {trial % 4 == 0 ? std::vector<std::int32_t>{72} : random_row(generator)};
      const std::int64_t window = 1 + static_cast<std::int64_t>(generator() % (trial % 2 == 0 ? 12 : 80));
      for (const SpRank rank : IndexRange<SpRank>(sp_size)) {
        const Pairs expected = pairs_within(row.front(), window, sp_size, rank);
        Pairs of_ring;
        const AttentionSchedule ring = schedule_ring(row, cut, rank, window);
        for (const AttentionRound& round : ring.rounds) {
          const auto place_of = [&](std::int64_t k) { return place(k, sp_size, round.from).second; };
          of_ring.merge(pairs_of(round.spans, window, place_of));
        }
        BOOST_TEST((of_ring == expected), "ring: sp " << sp_size << ", window " << window);
        const AttentionSchedule gathered = schedule_all_gather(row, cut, rank, window);
        const Pairs of_gathered = pairs_of(gathered.rounds.front().spans, window, [](std::int64_t k) { return k; });
        BOOST_TEST((of_gathered == expected), "all_gather: sp " << sp_size << ", window " << window);
        for (std::size_t d = 0; d < ring.rounds.size(); ++d) {
          BOOST_TEST((gathered.rounds[d].sends == ring.rounds[d].sends));
          BOOST_TEST((gathered.rounds[d].receives == ring.rounds[d].receives));
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(what_no_window_reaches_is_neither_computed_nor_sent) {
  std::mt19937 generator(17);
  for (const int sp_size : {2, 3, 4, 6}) {
    const RowCut cut(length, sp_size);
    for (int trial = 0; trial < 40; ++trial) {
      const RowDocuments row = {trial % 4 == 0 ? std::vector<std::int32_t>{72} : random_row(generator)};
      const std::int64_t window = 1 + static_cast<std::int64_t>(generator() % 30);
      for (const SpRank q_rank : IndexRange<SpRank>(sp_size)) {
        const Pairs visible = pairs_within(row.front(), window, sp_size, q_rank);
        for (const SpRank k_rank : IndexRange<SpRank>(sp_size)) {
          ChunkPair seen;
          const std::vector<Chunk> chunks = cut.chunks(k_rank);
          for (const auto& [query, key] : visible) {
            const auto is_in = [key = key](const Chunk& chunk) {
              return key >= chunk.global && key < chunk.global + chunk.length;
            };
            seen.front = seen.front || is_in(chunks.front());
            seen.back = seen.back || is_in(chunks.back());
          }
          BOOST_TEST((chunks_seen(row, cut, q_rank, k_rank, window) == seen));
          const std::vector<AttentionSpan> spans = attention_spans(row, cut, q_rank, k_rank, window);
          BOOST_TEST(spans.empty() == !seen.any());
          for (const AttentionSpan& span : spans) BOOST_TEST(!pairs_of({span}, window, std::identity()).empty());
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(a_short_window_reaches_the_neighbouring_chunks_alone) {
  // One document, 8 chunks of 9 tokens: chunk c sees the end of chunk c - 1, which rank 3 holds for its own chunk 4.
  const RowDocuments whole = {{72}};
  for (const SpRank rank : IndexRange<SpRank>(4)) {
    const std::vector<AttentionRound> rounds = schedule_ring(whole, {length, 4}, rank, 5).rounds;
    BOOST_TEST((rounds[1].receives == ChunkPair{rank > 0, false}));
    BOOST_TEST(!rounds[2].receives.any());
    BOOST_TEST((rounds[3].receives == ChunkPair{false, rank < 3}));
  }
  for (const SpRank rank : IndexRange<SpRank>(4)) {
    for (const AttentionRound& round : schedule_ring(whole, {length, 4}, rank, 1).rounds) {
      BOOST_TEST(!round.sends.any());
      BOOST_TEST((round.from == rank || round.spans.empty()));
    }
  }
}

BOOST_AUTO_TEST_CASE(kinds_of_attention_have_schedules_of_their_own) {
  const RowDocuments row = {{5, 31, 1, 2, 33}};
  const RowCut cut(length, 4);
  const AttentionMethod method{AttentionMethod::Keys::ring, 2};
  const AttentionSchedules schedules = make_schedules(method, {0, 7}, row, cut, 1);
  BOOST_TEST(schedules.size() == 2);
  BOOST_TEST((schedules[0].rounds == make_schedule(method, row, cut, 1).rounds));
  BOOST_TEST((schedules[1].rounds == make_schedule(method, row, cut, 1, 7).rounds));
  BOOST_TEST((schedules[0].rounds != schedules[1].rounds));
}

BOOST_AUTO_TEST_CASE(memory_is_bounded_by_documents_and_ranks) {
  std::mt19937 generator(13);
  for (const int sp_size : {1, 2, 3, 4, 6}) {
    for (int trial = 0; trial < 50; ++trial) {
      const RowDocuments rows = {random_row(generator), {length}, random_row(generator)};
      std::int64_t num_documents = 0;
      for (const auto& row : rows) num_documents += std::ssize(row);
      const std::vector<AttentionRound> rounds = rounds_of(rows, sp_size, SpRank::from(trial % sp_size));
      std::int64_t num_bytes = std::ssize(rounds) * static_cast<std::int64_t>(sizeof(AttentionRound));
      for (const AttentionRound& round : rounds) {
        num_bytes += static_cast<std::int64_t>(round.spans.capacity() * sizeof(AttentionSpan));
      }
      BOOST_TEST(num_bytes <= max_schedule_bytes(std::ssize(rows), num_documents, sp_size));

      const RowDocuments row = {random_row(generator)};
      for (const AttentionMethod& method : {AttentionMethod{AttentionMethod::Keys::all_gather, 1},
                                            AttentionMethod{AttentionMethod::Keys::ring, sp_size}}) {
        const AttentionSchedule schedule = make_schedule(method, row, {length, sp_size}, SpRank::from(trial % sp_size));
        num_bytes = std::ssize(schedule.rounds) * static_cast<std::int64_t>(sizeof(AttentionRound));
        for (const AttentionRound& round : schedule.rounds) {
          num_bytes += static_cast<std::int64_t>(round.spans.capacity() * sizeof(AttentionSpan));
        }
        BOOST_TEST(num_bytes <= max_schedule_bytes(1, std::ssize(row.front()), sp_size));
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(rows_longer_than_32_bits_keep_their_places) {
  constexpr std::int32_t longest = std::numeric_limits<std::int32_t>::max();
  const RowDocuments rows = {{longest, longest, 2, longest, longest}};  // 2^33 - 2
  const RowCut cut(padded_row_length((std::int64_t{1} << 33) - 2, 2), 2);
  const std::vector<AttentionSpan> spans = attention_spans(rows, cut, 0, 0);
  BOOST_REQUIRE(!spans.empty());
  BOOST_TEST(spans.back().q_begin + spans.back().q_len == cut.local_length() - 2);
}

BOOST_AUTO_TEST_SUITE_END()
