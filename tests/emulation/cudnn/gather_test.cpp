// SPDX-License-Identifier: Apache-2.0
// Both passes over gathered keys, of which cuDNN does each chunk of a rank's queries in a call: all ranks' results, and
// what they add to the gradients of keys, against loops over the whole row.

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "emulation/cudnn/layer.hpp"
#include "emulation/cudnn/loops.hpp"
#include "emulation/cudnn/rank_rows.hpp"
#include "sft/sequence/attention_schedule.hpp"

namespace sft::ops::testing {

namespace {

using sequence::RowCut;

/// A row of documents that ranks share, and its attention by loops.
class Row {
 public:
  Row(Heads heads, const std::vector<std::int32_t>& lengths, std::int64_t window, unsigned seed, const RowCut& cut)
      : cut_(cut),
        documents_{lengths},
        window_(window),
        whole_(heads, cut.length(), seed),
        sums_(static_cast<std::size_t>(cut.length() * 2 * heads.num_kv * heads.dim)) {
    Loops(whole_).run(documents_of({lengths.begin(), lengths.end()}, 0, window));
    double largest = 0;
    whole_.dqkv.for_each([&](std::int64_t row, std::int64_t column) {
      largest = std::max(largest, std::abs(get(whole_.dqkv.at(whole_.dqkv.bytes(), row, column), DType::bf16)));
    });
    of_gradients_.absolute = gradients_of_pieces.of_largest * largest;
  }

  /// Compares what the rank makes of the gathered keys, and takes what it adds to their gradients.
  void check_rank(const std::string& what, int rank) {
    const Heads& h = whole_.heads;
    const std::int64_t tokens = cut_.local_length();
    Layer part(h, tokens, 1);
    Twin gathered(DType::bf16, {cut_.length(), 2 * h.num_kv, h.dim});
    Twin partial(DType::float32, {cut_.length(), 2 * h.num_kv, h.dim});
    put_rows(part.qkv, whole_.qkv, cut_, rank);
    put_rows(part.dout, whole_.dout, cut_, rank);
    const auto schedule = sequence::schedule_all_gather(documents_, cut_, SpRank::from(rank), window_);
    gather(gathered, schedule, rank);
    Twin gradient(DType::bf16, {tokens, h.num, h.dim}, Layout{.gap = 8 * h.num_kv * h.dim});
    const std::vector<Operand> results = {out(part.out, sums), out(part.lse, lse_tolerance),
                                          out(gradient, of_gradients_)};
    std::vector<Operand> operands = results;
    operands.insert(operands.end(), {in(partial), in(part.qkv), in(gathered), in(part.dout), in(part.delta)});
    std::vector<std::vector<std::byte>> before;
    for (const Operand& result : results) before.push_back(result.twin->bytes());
    LibraryCalls calls;
    const auto both_passes = [&](Backend& backend, auto of) {
      const LibraryCalls calls_before = backend.library_calls();
      const auto plan = backend.plan_attention(schedule.rounds.front().spans, tokens, schedule.num_keys);
      const Tensor keys = of(gathered), key_gradients = of(partial);
      backend.run(AttentionForward{part.q(of(part.qkv)), heads_of(keys, 0, h.num_kv),
                                   heads_of(keys, h.num_kv, h.num_kv), of(part.out), of(part.lse), part.scale, *plan});
      backend.run(AttentionDelta{of(part.delta), of(part.out), of(part.dout)});
      backend.run(AttentionBackward{.q = part.q(of(part.qkv)),
                                    .k = heads_of(keys, 0, h.num_kv),
                                    .v = heads_of(keys, h.num_kv, h.num_kv),
                                    .dout = of(part.dout),
                                    .lse = of(part.lse),
                                    .delta = of(part.delta),
                                    .dq = of(gradient),
                                    .dk = heads_of(key_gradients, 0, h.num_kv),
                                    .dv = heads_of(key_gradients, h.num_kv, h.num_kv),
                                    .scale = part.scale,
                                    .plan = *plan,
                                    .out = of(part.out)});
      calls = {backend.library_calls().forward - calls_before.forward,
               backend.library_calls().backward - calls_before.backward};
    };
    auto actual = run_on_gpu(operands, both_passes);
    BOOST_TEST((actual == run_on_gpu(operands, both_passes)), what << ": other bits the second time");
    const bool sees_any = !schedule.rounds.front().spans.empty();
    BOOST_TEST(calls.forward == (sees_any ? 1 : 0), what << ": cuDNN did " << calls.forward << " forward passes");
    BOOST_TEST(calls.backward == (sees_any && find_attention_library().has_backward ? 1 : 0),
               what << ": cuDNN did " << calls.backward << " backward passes");
    put_rows(part.out, whole_.out, cut_, rank);
    put_rows(part.lse, whole_.lse, cut_, rank);
    put_rows(gradient, whole_.dqkv, cut_, rank);
    for (std::size_t i = 0; i < results.size(); ++i) {
      compare(*results[i].twin, actual[i], before[i], results[i], what + ", result " + std::to_string(i));
    }
    std::size_t at = 0;
    partial.for_each([&](std::int64_t row, std::int64_t column) {
      sums_[at++] += get(partial.at(actual[results.size()], row, column), DType::float32);
    });
  }

  /// Compares the gradients of keys and values, once all ranks have added theirs. Each part was rounded to bf16.
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
  /// Writes the chunks that the rank has or is sent; all others are NaN.
  void gather(Twin& gathered, const sequence::AttentionSchedule& schedule, int rank) {
    const auto put_chunk = [&](const sequence::Chunk& chunk) {
      for (std::int64_t row = chunk.global; row < chunk.global + chunk.length; ++row) {
        for (std::int64_t column = 0; column < gathered.cpu().row_elements(); ++column) {
          const std::int64_t of_all = whole_.heads.num * whole_.heads.dim + column;
          put(gathered.at(gathered.bytes(), row, column), DType::bf16,
              get(whole_.qkv.at(whole_.qkv.bytes(), row, of_all), DType::bf16));
        }
      }
    };
    for (const sequence::AttentionRound& round : schedule.rounds) {
      const std::vector<sequence::Chunk> chunks = cut_.chunks(static_cast<int>(round.from));
      const bool is_own = static_cast<int>(round.from) == rank;
      if (is_own || round.receives.front) put_chunk(chunks.front());
      if (is_own || round.receives.back) put_chunk(chunks.back());
    }
  }

  RowCut cut_;
  sequence::RowDocuments documents_;
  std::int64_t window_;
  Layer whole_;
  std::vector<double> sums_;  ///< gradients of keys and values, of all ranks
  Tolerance of_gradients_;    ///< by the largest of the row, as where one rank has all of it
};

void check_row(const std::string& what, Heads heads, const std::vector<std::int32_t>& lengths, int sp_size,
               std::int64_t window, unsigned seed) {
  const auto check_rank = [](Row& row, const std::string& of_rank, int rank) { row.check_rank(of_rank, rank); };
  check_ranks<Row>(what, heads, lengths, sp_size, window, seed, check_rank)
      .check_keys(what + " over " + std::to_string(sp_size));
}

}  // namespace

BOOST_AUTO_TEST_SUITE(cudnn)

BOOST_AUTO_TEST_CASE(gathered_keys) {
  unsigned seed = 7000;
  for (const Heads heads : {Heads{4, 2, 32}, Heads{2, 1, 64}, Heads{3, 3, 16}}) {
    const std::string what =
        std::to_string(heads.num) + "/" + std::to_string(heads.num_kv) + " x " + std::to_string(heads.dim);
    for (const int sp_size : {2, 3}) {
      check_row(what + ", one document", heads, {150}, sp_size, 0, seed += 10);
      check_row(what + ", documents", heads, {31, 1, 57, 40, 1, 29}, sp_size, 0, seed += 10);
      check_row(what + ", little of a row", heads, {9}, sp_size, 0, seed += 10);
      check_row(what + ", a window", heads, {31, 90, 40}, sp_size, 20, seed += 10);
      check_row(what + ", a window over chunks", heads, {5, 140}, sp_size, 77, seed += 10);
      check_row(what + ", a window of one token", heads, {5, 140}, sp_size, 1, seed += 10);
    }
  }
}

// Documents that end where chunks do, of rank 1 of 2, whose chunks are neighbours.
BOOST_AUTO_TEST_CASE(gathered_keys_of_whole_chunks) {
  const RowCut cut(128, 2);
  for (const std::vector<std::int32_t>& lengths :
       {std::vector<std::int32_t>{32, 32, 32, 32}, {64, 64}, {32, 64, 32}, {128}}) {
    Row row({2, 1, 32}, lengths, 0, 9000, cut);
    const std::string what = std::to_string(lengths.size()) + " documents";
    for (int rank = 0; rank < 2; ++rank) row.check_rank(what, rank);
    row.check_keys(what);
  }
}

BOOST_AUTO_TEST_CASE(random_gathered_keys) { on_random_rows(13, 8000, check_row); }

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft::ops::testing
