// SPDX-License-Identifier: Apache-2.0
// Attention on the tensor cores: what crosses the memory's bus where the L2 cache is ideal, what the blocks of threads
// ask the L2 cache for, and no bank conflict.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <memory>
#include <string>
#include <vector>

#include "benchmarks/op_bytes.hpp"
#include "emulation/ops/support.hpp"
#include "emulation/traffic/measure.hpp"
#include "ops/cuda/attention_plan.hpp"

namespace sft::ops::testing {

namespace {

namespace bytes_of = bench::bytes_of;
using Count = std::int64_t;
using Spans = std::vector<sequence::AttentionSpan>;

constexpr Count s = 2;  ///< bytes of bf16

struct Heads {
  Count num, num_kv, dim;
};

struct Work {
  std::string name;
  Count num_tokens;
  Spans spans;
};

const std::vector<Work> works = {
    {"256", 256, {{0, 256, 0, 256, 0, 0}}},
    {"100 + 156", 256, {{0, 100, 0, 100, 0, 0}, {100, 156, 100, 156, 0, 1}}},
    {"192 x 192 of a ring", 192, {{0, 192, 0, 192, 191, 0}}},
};

/// Rows of the other side that kernels read for tiles cut into parts of `part` rows; each part reads its own rows too.
Count other_rows(const std::vector<cuda::AttentionTile>& tiles, const std::vector<cuda::AttentionRange>& ranges,
                 int part, bool own_is_queries) {
  Count rows = 0;
  for (const cuda::AttentionTile& tile : tiles) {
    for (int first = 0; first < tile.count; first += part) {
      for (int i = tile.range_begin; i < tile.range_end; ++i) {
        const cuda::AttentionRange& range = ranges[static_cast<std::size_t>(i)];
        const int offset = tile.begin + first - range.own_begin, count = std::min(part, tile.count - first);
        rows += range.is_causal == 0 ? range.other_count
                : own_is_queries     ? std::min(range.other_count, offset + count)
                                     : range.other_count - offset;
      }
    }
  }
  return rows;
}

Count list_bytes(const std::vector<cuda::AttentionTile>& tiles, const std::vector<cuda::AttentionRange>& ranges) {
  return static_cast<Count>(tiles.size() * sizeof(tiles[0]) + ranges.size() * sizeof(ranges[0]));
}

double over(Count a, Count b) { return static_cast<double>(a) / static_cast<double>(b); }

/// The lists of a plan, and that sectors of the log-sum-exp hold other heads too.
constexpr double small_terms = 1.1;

}  // namespace

BOOST_AUTO_TEST_SUITE(attention)

BOOST_AUTO_TEST_CASE(tensor_cores) {
  for (const Heads heads : {Heads{7, 1, 64}, Heads{4, 1, 128}}) {
    for (const Work& work : works) {
      const Count T = work.num_tokens, n = heads.num, k = heads.num_kv, D = heads.dim;
      const std::string shape =
          work.name + ", " + std::to_string(n) + "/" + std::to_string(k) + " x " + std::to_string(D);
      const cuda::TileLists lists(work.spans, T, T);
      const auto plan = Backends::get().gpu().plan_attention(work.spans, T, T);
      const auto rows = [&](Count num) { return make(DType::bf16, {T, num, D}); };
      const Tensor q = rows(n), key = rows(k), v = rows(k), out = rows(n), dout = rows(n);
      const Tensor dq = rows(n), dk = rows(k), dv = rows(k);
      const Tensor lse = make(DType::float32, {T, n}), delta = make(DType::float32, {T, n});
      const Count key_lists = list_bytes(lists.query_tiles, lists.key_ranges),
                  query_lists = list_bytes(lists.key_tiles, lists.query_ranges);
      constexpr int forward_rows = 128, backward_rows = 64;
      const Count row_bytes = s * D;

      const Count forward = bytes_of::attention_forward(s, T, n, k, D);
      const Count forward_asked =
          2 * row_bytes * n * (T + other_rows(lists.query_tiles, lists.key_ranges, forward_rows, true));
      check_traffic("attention_forward", shape, {forward, key_lists, small_terms * over(forward_asked, forward)},
                    [&](Backend& ops) {
                      ops.attention_forward({q, key, v, out, lse, 0.125F, *plan});
                    });

      check_traffic("attention_delta", shape, {bytes_of::attention_delta(s, T, n, D)},
                    [&](Backend& ops) { ops.attention_delta(delta, out, dout); });

      // Each of its two kernels reads all of q, k, v, dout, lse and delta.
      const Count backward = bytes_of::attention_backward(s, T, n, k, D);
      const Count read_again = row_bytes * T * 2 * (n + k) + 8 * T * n;
      const Count for_queries = other_rows(lists.query_tiles, lists.key_ranges, backward_rows, true),
                  for_keys = other_rows(lists.key_tiles, lists.query_ranges, backward_rows, false);
      const Count backward_asked =
          row_bytes * n * (3 * T + 2 * for_queries) + row_bytes * (4 * k * T + 2 * n * for_keys);
      check_traffic(
          "attention_backward", shape,
          {backward, read_again + key_lists + query_lists, small_terms * over(backward_asked, backward + read_again)},
          [&](Backend& ops) {
            ops.attention_backward({q, key, v, dout, lse, delta, dq, dk, dv, 0.125F, *plan});
          });
      free_tensors();
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft::ops::testing
