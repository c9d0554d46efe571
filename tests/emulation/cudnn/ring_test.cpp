// SPDX-License-Identifier: Apache-2.0
// Both passes of a ring, of which cuDNN does whole documents and wide rectangles: all ranks' results, and what they add
// to the gradients of keys, against loops over the whole row.

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "emulation/cudnn/layer.hpp"
#include "emulation/cudnn/loops.hpp"
#include "emulation/cudnn/rank_rows.hpp"
#include "sft/sequence/attention_schedule.hpp"

namespace sft::ops::testing {

BOOST_AUTO_TEST_SUITE(cudnn)

namespace {

using sequence::RowCut;

// As of a layer whose result is bf16; here that of the loops alone is rounded when it is stored.
constexpr Tolerance float32_sums = sums;

/// A row of documents that ranks share, and its attention by loops.
class Row {
 public:
  Row(Heads heads, const std::vector<std::int32_t>& lengths, std::int64_t window, unsigned seed, const RowCut& cut)
      : cut_(cut),
        documents_{lengths},
        window_(window),
        whole_(heads, cut.length(), seed),
        sums_(static_cast<std::size_t>(cut.length() * 2 * heads.num_kv * heads.dim)) {
    Spans spans;
    std::int64_t begin = 0;
    for (const std::int64_t length : lengths) {
      spans.push_back({begin, length, begin, length, 0, static_cast<std::int64_t>(spans.size()), window});
      begin += length;
    }
    Loops(whole_).run(spans);
    double largest = 0;
    whole_.dqkv.for_each([&](std::int64_t row, std::int64_t column) {
      largest = std::max(largest, std::abs(get(whole_.dqkv.at(whole_.dqkv.bytes(), row, column), DType::bf16)));
    });
    of_gradients_.absolute = gradients_of_pieces.of_largest * largest;
    for (int rank = 0; rank < cut.sp_size(); ++rank) {
      parts_.push_back(part_of(whole_.qkv, DType::bf16, rank));
      douts_.push_back(part_of(whole_.dout, DType::bf16, rank));
    }
  }

  /// The calls of a pass of the rank that are for cuDNN: its own documents, and in each round what is wide enough for
  /// it of the keys that no border or window cuts.
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

  /// Compares what the rank makes of all rounds, and takes what it adds to the gradients of keys; how many calls cuDNN
  /// did.
  LibraryCalls check_rank(const std::string& what, int rank) {
    const Heads& h = whole_.heads;
    const std::int64_t tokens = cut_.local_length();
    Twin result(DType::float32, {tokens, h.num, h.dim}), lse(DType::float32, {tokens, h.num});
    Twin output(DType::bf16, {tokens, h.num, h.dim}), delta(DType::float32, {tokens, h.num});
    Twin gradient(DType::float32, {tokens, h.num, h.dim});
    std::vector<Twin> partials;  // by owner of the keys
    for (int i = 0; i < cut_.sp_size(); ++i) partials.push_back(Twin(DType::float32, {tokens, 2 * h.num_kv, h.dim}));
    const std::vector<Operand> results = {out(result, float32_sums), out(lse, lse_tolerance),
                                          out(gradient, of_gradients_)};
    std::vector<Operand> operands = results;
    for (Twin& partial : partials) operands.push_back(in(partial));
    operands.insert(operands.end(), {in(output), in(delta), in(douts_[rank])});
    for (Twin& part : parts_) operands.push_back(in(part));
    const std::vector<std::vector<std::byte>> before = {result.bytes(), lse.bytes(), gradient.bytes()};
    const auto schedule = sequence::schedule_ring(documents_, cut_, SpRank::from(rank), window_);
    LibraryCalls calls;
    const auto rounds = [&](Backend& backend, auto of) {
      const LibraryCalls calls_before = backend.library_calls();
      std::vector<std::unique_ptr<AttentionPlan>> plans;
      const auto is_left_out = [&](std::size_t d) { return d > 0 && schedule.rounds[d].spans.empty(); };
      for (const sequence::AttentionRound& round : schedule.rounds) {
        plans.push_back(backend.plan_attention(round.spans, tokens, tokens));
      }
      const Tensor own = of(parts_[rank]);
      for (std::size_t d = 0; d < schedule.rounds.size(); ++d) {
        if (is_left_out(d)) continue;
        const Tensor others = of(parts_[static_cast<int>(schedule.rounds[d].from)]);
        backend.run(AttentionForward{.q = whole_.q(own),
                                     .k = whole_.k(others),
                                     .v = whole_.v(others),
                                     .out = of(result),
                                     .lse = of(lse),
                                     .scale = whole_.scale,
                                     .plan = *plans[d],
                                     .merge = d > 0});
      }
      backend.run(Copy{of(output), of(result)});
      backend.run(AttentionDelta{of(delta), of(output), of(douts_[rank])});
      for (std::size_t d = 0; d < schedule.rounds.size(); ++d) {
        if (is_left_out(d)) continue;
        const int owner = static_cast<int>(schedule.rounds[d].from);
        const Tensor others = of(parts_[owner]), key_gradients = of(partials[owner]);
        backend.run(AttentionBackward{.q = whole_.q(own),
                                      .k = whole_.k(others),
                                      .v = whole_.v(others),
                                      .dout = of(douts_[rank]),
                                      .lse = of(lse),
                                      .delta = of(delta),
                                      .dq = of(gradient),
                                      .dk = heads_of(key_gradients, 0, h.num_kv),
                                      .dv = heads_of(key_gradients, h.num_kv, h.num_kv),
                                      .scale = whole_.scale,
                                      .plan = *plans[d],
                                      .accumulate_dq = d > 0,
                                      .out = of(output)});
      }
      calls = {backend.library_calls().forward - calls_before.forward,
               backend.library_calls().backward - calls_before.backward};
    };
    auto actual = run_on_gpu(operands, rounds);
    BOOST_TEST((actual == run_on_gpu(operands, rounds)), what << ": other bits the second time");
    put_rows(result, whole_.out, cut_, rank);
    put_rows(lse, whole_.lse, cut_, rank);
    put_rows(gradient, whole_.dqkv, cut_, rank);
    for (std::size_t i = 0; i < results.size(); ++i) {
      compare(*results[i].twin, actual[i], before[i], results[i], what + ", result " + std::to_string(i));
    }
    for (std::size_t d = 0; d < schedule.rounds.size(); ++d) {
      if (d > 0 && schedule.rounds[d].spans.empty()) continue;
      const int owner = static_cast<int>(schedule.rounds[d].from);
      Twin& partial = partials[owner];
      std::vector<std::byte>& added = actual[results.size() + static_cast<std::size_t>(owner)];
      for (const sequence::Chunk& chunk : cut_.chunks(owner)) {
        for (std::int64_t row = 0; row < chunk.length; ++row) {
          for (std::int64_t column = 0; column < key_columns(); ++column) {
            sums_[static_cast<std::size_t>((chunk.global + row) * key_columns() + column)] +=
                get(partial.at(added, chunk.local + row, column), DType::float32);
          }
        }
      }
    }
    return calls;
  }

  /// Compares the gradients of keys and values, once all ranks have added theirs. Each call's part was rounded to bf16.
  void check_keys(const std::string& what) {
    const Heads& h = whole_.heads;
    Twin expected(DType::float32, {cut_.length(), 2 * h.num_kv, h.dim});
    std::vector<std::byte> actual = expected.bytes();
    const std::vector<std::byte> before = expected.bytes();
    std::size_t at = 0;
    expected.for_each([&](std::int64_t row, std::int64_t column) {
      put(expected.at(actual, row, column), DType::float32, sums_[at++]);
      const double value = get(whole_.dqkv.at(whole_.dqkv.bytes(), row, h.num * h.dim + column), DType::bf16);
      put(expected.at(expected.bytes(), row, column), DType::float32, value);
    });
    compare(expected, actual, before, out(expected, of_gradients_), what + ", gradients of keys");
  }

 private:
  [[nodiscard]] std::int64_t key_columns() const { return 2 * whole_.heads.num_kv * whole_.heads.dim; }
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
  std::vector<Twin> parts_, douts_;  ///< q, k and v of each rank; gradients of its output
  std::vector<double> sums_;         ///< gradients of keys and values, of all ranks
  Tolerance of_gradients_;           ///< by the largest of the row, as where one rank has all of it
};

void check_row(const std::string& what, Heads heads, const std::vector<std::int32_t>& lengths, int sp_size,
               std::int64_t window, unsigned seed) {
  const auto check_rank = [](Row& row, const std::string& of_rank, int rank) {
    const AttentionLibrary library = find_attention_library();
    const std::int64_t forward = library.has_float32_results ? row.calls_for_library(rank) : 0;
    const std::int64_t backward = library.has_backward ? row.calls_for_library(rank) : 0;
    const LibraryCalls calls = row.check_rank(of_rank, rank);
    BOOST_TEST(calls.forward == forward, of_rank << ": cuDNN did " << calls.forward << " calls, not " << forward);
    BOOST_TEST(calls.backward == backward,
               of_rank << ": cuDNN did " << calls.backward << " backward calls, not " << backward);
  };
  check_ranks<Row>(what, heads, lengths, sp_size, window, seed, check_rank)
      .check_keys(what + " over " + std::to_string(sp_size));
}

}  // namespace

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
  check_row("documents of odd lengths", {2, 1, 16}, {33, 1101}, 4, 0, seed + 10);
}

// More queries than a call takes: the second one takes what is left, and adds to the same gradients of keys.
BOOST_AUTO_TEST_CASE(pieces_of_a_rectangle) {
  constexpr std::int64_t num_queries = 4300, num_keys = 130;
  const Heads h{2, 1, 16};
  Twin q = Twin(DType::bf16, {num_queries, h.num, h.dim}).normal(1);
  Twin kv = Twin(DType::bf16, {num_keys, 2 * h.num_kv, h.dim}).normal(2);
  Twin output = Twin(DType::bf16, {num_queries, h.num, h.dim}).normal(3, 0.1);
  Twin dout = Twin(DType::bf16, {num_queries, h.num, h.dim}).normal(4);
  Twin lse = Twin(DType::float32, {num_queries, h.num}).normal(5, 0.3, 5.5);  // of more keys than these
  Twin delta(DType::float32, {num_queries, h.num}), dq(DType::float32, {num_queries, h.num, h.dim});
  Twin dkv(DType::float32, {num_keys, 2 * h.num_kv, h.dim});
  std::int64_t calls = 0;
  check("pieces",
        {in(q), in(kv), in(output), in(dout), in(lse), out(delta, {.of_largest = 0.02}), out(dq, gradients_of_pieces),
         out(dkv, gradients_of_pieces)},
        [&](Backend& backend, auto of) {
          const std::int64_t before = backend.library_calls().backward;
          const auto plan = backend.plan_attention({{0, num_queries, 0, num_keys, num_keys, 0}}, num_queries, num_keys);
          const Tensor keys = of(kv), key_gradients = of(dkv);
          backend.run(AttentionDelta{of(delta), of(output), of(dout)});
          backend.run(Fill{of(dq), 0.125F});  // what other keys have given
          backend.run(AttentionBackward{.q = of(q),
                                        .k = heads_of(keys, 0, h.num_kv),
                                        .v = heads_of(keys, h.num_kv, h.num_kv),
                                        .dout = of(dout),
                                        .lse = of(lse),
                                        .delta = of(delta),
                                        .dq = of(dq),
                                        .dk = heads_of(key_gradients, 0, h.num_kv),
                                        .dv = heads_of(key_gradients, h.num_kv, h.num_kv),
                                        .scale = 0.25F,
                                        .plan = *plan,
                                        .accumulate_dq = true,
                                        .out = of(output)});
          calls = std::max(calls, backend.library_calls().backward - before);
        });
  BOOST_TEST(calls == (find_attention_library().has_backward ? 1 : 0));
}

BOOST_AUTO_TEST_CASE(random_rings) { on_random_rows(11, 4000, check_row); }

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft::ops::testing
