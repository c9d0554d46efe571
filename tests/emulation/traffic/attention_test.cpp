// SPDX-License-Identifier: Apache-2.0
// Attention: what crosses the memory's bus where the L2 cache is ideal, and what blocks of threads ask of that cache.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <memory>
#include <string>
#include <vector>

#include "emulation/ops/support.hpp"
#include "emulation/traffic/measure.hpp"
#include "ops/cuda/attention_plan.hpp"
#include "tools/benchmarks/op_bytes.hpp"

namespace sft::ops::testing {

namespace {

namespace bytes_of = bench::bytes_of;
using Count = std::int64_t;
using Spans = std::vector<sequence::AttentionSpan>;

/// A number of each row of lse or delta: those of other heads are in the same sector, and of no use.
constexpr Count sector = 32;

struct Kernels {
  DType dtype;
  int forward_rows, backward_rows;  ///< own rows of a block of threads
  /// Bytes of sectors of lse and delta that a block of keys of the backward pass asks for, for each query. Each warp of
  /// the plain kernels reads them for its 8 keys, 8 queries at a time.
  Count for_keys;
};
constexpr Kernels tensor_cores{DType::bf16, 128, 64, 2 * sector}, plain{DType::float32, 32, 32, 2 * sector * 32 / 8};
constexpr Kernels hopper{DType::bf16, 128, 128, 2 * sector}, of_wide_heads{DType::bf16, 64, 32, 2 * sector};

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
        rows += range.diagonal == cuda::no_border ? range.other_count
                : own_is_queries                  ? std::min(range.other_count, offset + count)
                                                  : range.other_count - offset;
      }
    }
  }
  return rows;
}

/// Instructions of warps on matrices. Products are m16n8k16, so 32 x 32 numbers of a product over D take D / 2.
struct Matrices {
  Count products = 0, loads = 0;
};

/// Parts of tiles, and pairs of a block of up to `block` other rows with `own` rows of a part of which some meet.
struct Meetings {
  Count parts = 0, blocks = 0;
};

Meetings meetings(const std::vector<cuda::AttentionTile>& tiles, const std::vector<cuda::AttentionRange>& ranges,
                  int part, int own, int block, bool own_is_queries) {
  Meetings all;
  for (const cuda::AttentionTile& tile : tiles) {
    for (int first = 0; first < tile.count && tile.range_begin < tile.range_end; first += part) {
      ++all.parts;
      for (int i = tile.range_begin; i < tile.range_end; ++i) {
        const cuda::AttentionRange& range = ranges[static_cast<std::size_t>(i)];
        const bool is_square = range.diagonal != cuda::no_border;
        const int offset = tile.begin + first - range.own_begin, count = std::min(part, tile.count - first);
        // Rows of the other side that some row of the part meets, counted from `begin`.
        const int begin = is_square && !own_is_queries ? offset : 0;
        const int end = is_square && own_is_queries ? std::min(range.other_count, offset + count) : range.other_count;
        for (int row = begin; row < end; row += block) {
          for (int warp = 0; warp < count; warp += own) {
            const int last = std::min(row + block, end) - 1;
            if (!is_square || (own_is_queries ? offset + warp + own > row : offset + warp <= last)) ++all.blocks;
          }
        }
      }
    }
  }
  return all;
}

/// Own rows of a warp, in sixteens: heads of up to 128 numbers have two, so that what is loaded of other rows is
/// multiplied twice.
int sixteens_of_warp(Count dim) { return dim <= 128 ? 2 : 1; }

/// From shared memory come 16 x 16 numbers of queries for each sixteen of a warp's own rows, and of keys or values for
/// two products of each.
Matrices of_forward(const cuda::TileLists& lists, Count heads, Count dim) {
  const int own = sixteens_of_warp(dim), block = dim == 128 ? 48 : 64;
  const Count blocks = heads * meetings(lists.query_tiles, lists.key_ranges, 64 * own, 16 * own, block, true).blocks;
  return {blocks * own * block * dim / 64, blocks * (dim / 16 * (own + block / 16) + block / 16 * dim / 16)};
}

/// Three products for queries and four for keys; a pair of warps loads its own rows once for each head, two pairs a
/// part, and 16 x 16 other numbers for two products of each sixteen of its own rows.
Matrices of_backward(const cuda::TileLists& lists, Count heads, Count kv_heads, Count dim) {
  const int own = sixteens_of_warp(dim), rows = 16 * own;
  const Meetings queries = meetings(lists.query_tiles, lists.key_ranges, 2 * rows, rows, rows, true),
                 keys = meetings(lists.key_tiles, lists.query_ranges, 2 * rows, rows, rows, false);
  const Count products = heads * (queries.blocks * 3 + keys.blocks * 4) * own * own * dim / 8;
  return {products, products / (2 * own) + (heads * queries.parts + kv_heads * keys.parts) * own * dim / 4};
}

/// Products of warpgroups, as many m16n8k16 as they come to: two of 128 queries with blocks of 128 keys, three of them
/// with blocks of 64, and four of 128 keys with 64 queries. Operands come from shared memory without loads, but own
/// rows of queries in the backward pass.
Matrices of_forward_on_hopper(const cuda::TileLists& lists, Count heads, Count dim) {
  return {heads * meetings(lists.query_tiles, lists.key_ranges, 128, 128, 128, true).blocks * 2 * 8 * dim};
}
Matrices of_backward_on_hopper(const cuda::TileLists& lists, Count heads, Count dim) {
  const Meetings queries = meetings(lists.query_tiles, lists.key_ranges, 128, 128, 64, true),
                 keys = meetings(lists.key_tiles, lists.query_ranges, 128, 128, 64, false);
  return {heads * (queries.blocks * 3 + keys.blocks * 4) * 4 * dim, heads * queries.parts * dim};
}

/// Tiles behind the last, for which a plan has room where launches may be repeated: blocks of threads read theirs and
/// leave.
Count idle_tiles(const std::vector<cuda::AttentionTile>& tiles, Count num_tokens, bool repeats) {
  if (!repeats) return 0;
  const Count num_whole = (num_tokens + cuda::attention_tile_rows - 1) / cuda::attention_tile_rows;
  return static_cast<Count>(cuda::rounded_entries(tiles.size(), num_whole, num_tokens) - tiles.size());
}

Count list_bytes(const std::vector<cuda::AttentionTile>& tiles, const std::vector<cuda::AttentionRange>& ranges,
                 Count num_tokens, bool repeats) {
  return (std::ssize(tiles) + idle_tiles(tiles, num_tokens, repeats)) * static_cast<Count>(sizeof(tiles[0])) +
         std::ssize(ranges) * static_cast<Count>(sizeof(ranges[0]));
}

void check(const Kernels& kernels, const Work& work, const Heads& heads, bool repeats) {
  const Count T = work.num_tokens, n = heads.num, k = heads.num_kv, D = heads.dim;
  const auto s = static_cast<Count>(size_of(kernels.dtype)), row_bytes = s * D;
  const std::string shape = work.name + ", " + std::to_string(n) + "/" + std::to_string(k) + " x " + std::to_string(D) +
                            " " + name_of(kernels.dtype) + (repeats ? ", repeated" : "");
  const cuda::TileLists lists(work.spans, T, T);
  Backends::get().gpu().set_attention_repeats(repeats);
  const auto plan = Backends::get().gpu().plan_attention(work.spans, T, T);
  Backends::get().gpu().set_attention_repeats(false);
  const auto rows = [&](Count num) { return make(kernels.dtype, {T, num, D}); };
  const Tensor q = rows(n), key = rows(k), v = rows(k), out = rows(n), dout = rows(n);
  const Tensor dq = rows(n), dk = rows(k), dv = rows(k);
  const Tensor lse = make(DType::float32, {T, n}), delta = make(DType::float32, {T, n});
  const Count key_lists = list_bytes(lists.query_tiles, lists.key_ranges, T, repeats),
              query_lists = list_bytes(lists.key_tiles, lists.query_ranges, T, repeats);
  // Of idle tiles each warp of a block asks for a sector.
  constexpr Count warps = 4;
  const auto asked_of_idle = [&](const std::vector<cuda::AttentionTile>& tiles, int own_rows) {
    const Count blocks = std::max(1, cuda::attention_tile_rows / own_rows);
    return idle_tiles(tiles, T, repeats) * blocks * n * warps * sector;
  };

  const bool has_matrices = kernels.dtype == DType::bf16, is_hopper = tested_attention() == AttentionKernels::hopper;
  const Matrices in_forward = !has_matrices ? Matrices{}
                              : is_hopper   ? of_forward_on_hopper(lists, n, D)
                                            : of_forward(lists, n, D),
                 in_backward = !has_matrices ? Matrices{}
                               : is_hopper   ? of_backward_on_hopper(lists, n, D)
                                             : of_backward(lists, n, k, D);
  const Count met = other_rows(lists.query_tiles, lists.key_ranges, kernels.forward_rows, true);
  const Count forward = bytes_of::attention_forward(s, T, n, k, D);
  check_traffic(
      "attention_forward", shape,
      {forward, key_lists,
       n * (2 * row_bytes * (T + met) + sector * T) - forward + asked_of_idle(lists.query_tiles, kernels.forward_rows),
       0, true, in_forward.products, in_forward.loads},
      [&](Backend& ops) {
        ops.run(AttentionForward{q, key, v, out, lse, 0.125F, *plan});
      });

  check_traffic("attention_delta", shape, {bytes_of::attention_delta(s, T, n, D)}, [&](Backend& ops) {
    ops.run(AttentionDelta{delta, out, dout});
  });

  // Each of its two kernels reads all of q, k, v, dout, lse and delta.
  const Count backward = bytes_of::attention_backward(s, T, n, k, D);
  const Count read_again = 2 * row_bytes * T * (n + k) + 8 * T * n;
  const Count met_by_queries = other_rows(lists.query_tiles, lists.key_ranges, kernels.backward_rows, true),
              met_by_keys = other_rows(lists.key_tiles, lists.query_ranges, kernels.backward_rows, false);
  const Count asked = n * (3 * row_bytes * T + 2 * sector * T + 2 * row_bytes * met_by_queries) +
                      4 * k * row_bytes * T + n * (2 * row_bytes + kernels.for_keys) * met_by_keys +
                      asked_of_idle(lists.query_tiles, kernels.backward_rows) +
                      asked_of_idle(lists.key_tiles, kernels.backward_rows);
  check_traffic("attention_backward", shape,
                {backward, read_again + key_lists + query_lists, asked - backward - read_again, 0, false,
                 in_backward.products, in_backward.loads},
                [&](Backend& ops) {
                  ops.run(AttentionBackward{q, key, v, dout, lse, delta, dq, dk, dv, 0.125F, *plan});
                });
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(attention, FreesTensors)

BOOST_AUTO_TEST_CASE(on_tensor_cores) {
  const Kernels& kernels = tested_attention() == AttentionKernels::hopper ? hopper : tensor_cores;
  for (const bool repeats : {false, true}) {
    for (const Work& work : works) check(kernels, work, {3, 1, 64}, repeats);
    check(kernels, works[0], {2, 1, 128}, repeats);
    if (tested_attention() != AttentionKernels::hopper) check(of_wide_heads, works[0], {2, 1, 256}, repeats);
  }
}

BOOST_AUTO_TEST_CASE(in_float32) {
  for (const bool repeats : {false, true}) check(plain, {"64", 64, {{0, 64, 0, 64, 0, 0}}}, {2, 1, 64}, repeats);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft::ops::testing
