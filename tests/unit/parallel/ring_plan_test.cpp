// Ring attention's plan against the definition: a query sees the keys of its own document up to itself, each once.

#include "sft/parallel/ring_plan.hpp"

#include <boost/test/unit_test.hpp>
#include <map>
#include <set>
#include <utility>

namespace {

using namespace sft::parallel;

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

}  // namespace

BOOST_AUTO_TEST_CASE(every_visible_pair_is_computed_once) {
  for (const int sp_size : {1, 2, 3, 4, 6}) {
    std::map<std::pair<std::int64_t, std::int64_t>, std::multiset<std::int64_t>> seen;
    for (int rank = 0; rank < sp_size; ++rank) {
      for (const RingStep& step : plan_ring(documents, length, sp_size, rank)) {
        for (const sft::ops::AttentionSpan& span : step.spans) {
          for (std::int64_t i = 0; i < span.q_len; ++i) {
            const auto q = place(span.q_begin + i, sp_size, rank);
            for (std::int64_t j = 0; j < span.k_len && j <= i + span.diagonal; ++j) {
              const auto k = place(span.k_begin + j, sp_size, step.from);
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

BOOST_AUTO_TEST_CASE(senders_and_receivers_agree) {
  for (const int sp_size : {2, 3, 4, 6}) {
    std::vector<std::vector<RingStep>> plans;
    for (int rank = 0; rank < sp_size; ++rank) plans.push_back(plan_ring(documents, length, sp_size, rank));
    for (std::size_t rank = 0; rank < plans.size(); ++rank) {
      for (std::size_t d = 1; d < plans.size(); ++d) {
        const RingStep& step = plans[rank][d];
        BOOST_TEST(plans[static_cast<std::size_t>(step.to)][d].from == static_cast<int>(rank));
        BOOST_TEST(plans[static_cast<std::size_t>(step.to)][d].receives == step.sends);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(short_documents_exchange_nothing) {
  // Chunks of 9 tokens and documents of 9: no document spans two chunks.
  const RowDocuments aligned = {{9, 9, 9, 9, 9, 9, 9, 9}};
  for (int rank = 0; rank < 4; ++rank) {
    for (const RingStep& step : plan_ring(aligned, 72, 4, rank)) {
      BOOST_TEST(!step.sends);
      BOOST_TEST(!step.receives);
    }
  }
}

BOOST_AUTO_TEST_CASE(zigzag_balances_causal_work) {
  // One document over the row: every rank computes the same number of pairs to within one chunk's diagonal.
  const RowDocuments whole = {{72}};
  std::vector<std::int64_t> pairs;
  for (int rank = 0; rank < 4; ++rank) {
    std::int64_t n = 0;
    for (const RingStep& step : plan_ring(whole, 72, 4, rank)) {
      for (const auto& span : step.spans) {
        for (std::int64_t i = 0; i < span.q_len; ++i) {
          n += std::min<std::int64_t>(span.k_len, i + span.diagonal + 1);
        }
      }
    }
    pairs.push_back(n);
  }
  for (const std::int64_t n : pairs) BOOST_TEST(n == pairs.front());
}
