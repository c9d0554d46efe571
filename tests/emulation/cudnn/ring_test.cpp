// SPDX-License-Identifier: Apache-2.0
// The forward pass of a ring, of which cuDNN does whole documents and wide rectangles: all ranks' results against
// loops over the whole row.

#include <boost/test/unit_test.hpp>
#include <string>
#include <vector>

#include "emulation/cudnn/layer.hpp"
#include "emulation/cudnn/loops.hpp"
#include "emulation/cudnn/rank_rows.hpp"
#include "sft/sequence/attention_schedule.hpp"

namespace sft::ops::testing {

namespace {

using sequence::RowCut;

// As of a layer whose result is bf16; here that of the loops alone is rounded when it is stored.
constexpr Tolerance float32_sums = sums;

/// A row of documents that ranks share, and its attention by loops.
class Row {
 public:
  Row(Heads heads, const std::vector<std::int32_t>& lengths, std::int64_t window, unsigned seed, const RowCut& cut)
      : cut_(cut), documents_{lengths}, window_(window), whole_(heads, cut.length(), seed) {
    Spans spans;
    std::int64_t begin = 0;
    for (const std::int64_t length : lengths) {
      spans.push_back({begin, length, begin, length, 0, static_cast<std::int64_t>(spans.size()), window});
      begin += length;
    }
    Loops(whole_).run(spans);
    for (int rank = 0; rank < cut.sp_size(); ++rank) parts_.push_back(part_of(whole_.qkv, DType::bf16, rank));
  }

  /// The calls of the rank that are for cuDNN: its own documents, and in each round what is wide enough for it of the
  /// keys that no border or window cuts.
  [[nodiscard]] std::int64_t calls_for_library(int rank) const {
    constexpr std::int64_t least_rows = 128;
    std::int64_t calls = 1;
    for (const auto& round : sequence::schedule_ring(documents_, cut_, SpRank::from(rank), window_).rounds) {
      if (std::ranges::any_of(round.spans, [](const sequence::AttentionSpan& span) {
            return span.diagonal >= span.k_len - 1 && !span.is_windowed() && span.q_len >= least_rows &&
                   span.k_len >= least_rows && span.q_begin + span.k_begin + span.diagonal > 0;
          })) {
        ++calls;
      }
    }
    return calls;
  }

  /// Compares what the rank makes of all rounds; how many calls cuDNN did.
  std::int64_t check_rank(const std::string& what, int rank) {
    const Heads& h = whole_.heads;
    const std::int64_t tokens = cut_.local_length();
    Twin result(DType::float32, {tokens, h.num, h.dim}), lse(DType::float32, {tokens, h.num});
    const std::vector<Operand> results = {out(result, float32_sums), out(lse, lse_tolerance)};
    std::vector<Operand> operands = results;
    for (Twin& part : parts_) operands.push_back(in(part));
    const std::vector<std::vector<std::byte>> before = {result.bytes(), lse.bytes()};
    const auto schedule = sequence::schedule_ring(documents_, cut_, SpRank::from(rank), window_);
    std::int64_t calls = 0;
    const auto rounds = [&](Backend& backend, auto of) {
      const std::int64_t calls_before = backend.library_calls().forward;
      for (std::size_t d = 0; d < schedule.rounds.size(); ++d) {
        const sequence::AttentionRound& round = schedule.rounds[d];
        const auto plan = backend.plan_attention(round.spans, tokens, tokens);
        if (d > 0 && round.spans.empty()) continue;
        const Tensor own = of(parts_[rank]), others = of(parts_[static_cast<int>(round.from)]);
        backend.attention_forward({.q = whole_.q(own),
                                   .k = whole_.k(others),
                                   .v = whole_.v(others),
                                   .out = of(result),
                                   .lse = of(lse),
                                   .scale = whole_.scale,
                                   .plan = *plan,
                                   .merge = d > 0});
      }
      calls = backend.library_calls().forward - calls_before;
    };
    auto actual = run_on_gpu(operands, rounds);
    BOOST_TEST((actual == run_on_gpu(operands, rounds)), what << ": other bits the second time");
    put_rows(result, whole_.out, cut_, rank);
    put_rows(lse, whole_.lse, cut_, rank);
    for (std::size_t i = 0; i < results.size(); ++i) {
      compare(*results[i].twin, actual[i], before[i], results[i], what + ", result " + std::to_string(i));
    }
    return calls;
  }

 private:
  Twin part_of(Twin& whole, DType dtype, int rank) const {
    const Tensor& x = whole.cpu();
    Twin part(dtype, {cut_.local_length(), x.shape[1], x.shape[2]});
    put_rows(part, whole, cut_, rank);
    return part;
  }

  RowCut cut_;
  sequence::RowDocuments documents_;
  std::int64_t window_;
  Layer whole_;
  std::vector<Twin> parts_;  ///< q, k and v of each rank
};

void check_row(const std::string& what, Heads heads, const std::vector<std::int32_t>& lengths, int sp_size,
               std::int64_t window, unsigned seed) {
  const auto check_rank = [](Row& row, const std::string& of_rank, int rank) {
    const std::int64_t expected = find_attention_library().has_float32_results ? row.calls_for_library(rank) : 0;
    const std::int64_t calls = row.check_rank(of_rank, rank);
    BOOST_TEST(calls == expected, of_rank << ": cuDNN did " << calls << " calls, not " << expected);
  };
  (void)check_ranks<Row>(what, heads, lengths, sp_size, window, seed, check_rank);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(cudnn)

BOOST_AUTO_TEST_CASE(rings) {
  unsigned seed = 3000;
  for (const Heads heads : {Heads{4, 2, 32}, Heads{2, 1, 64}, Heads{3, 3, 16}}) {
    const std::string what =
        std::to_string(heads.num) + "/" + std::to_string(heads.num_kv) + " x " + std::to_string(heads.dim);
    for (const int sp_size : {1, 2, 3}) {
      check_row(what + ", one document", heads, {150}, sp_size, 0, seed += 10);
      check_row(what + ", documents", heads, {31, 1, 57, 40, 1, 29}, sp_size, 0, seed += 10);
      check_row(what + ", a window", heads, {31, 90, 40}, sp_size, 20, seed += 10);
      check_row(what + ", a window over chunks", heads, {5, 140}, sp_size, 77, seed += 10);
    }
  }
}

// Wide enough that cuDNN takes the keys of other ranks, too.
BOOST_AUTO_TEST_CASE(rectangles) {
  unsigned seed = 5000;
  for (const Heads heads : {Heads{2, 1, 32}, Heads{2, 2, 16}}) {
    const std::string what = std::to_string(heads.num) + "/" + std::to_string(heads.num_kv);
    check_row(what + ", one document", heads, {640}, 2, 0, seed += 10);
    check_row(what + ", one document", heads, {870}, 3, 0, seed += 10);
    check_row(what + ", documents", heads, {100, 1, 420, 139, 300}, 2, 0, seed += 10);
    check_row(what + ", a window", heads, {640, 70}, 2, 200, seed += 10);
    check_row(what + ", a window that cuts nothing", heads, {300, 400}, 2, 5000, seed += 10);
  }
}

BOOST_AUTO_TEST_CASE(random_rings) { on_random_rows(11, 4000, check_row); }

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft::ops::testing
