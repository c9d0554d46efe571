// SPDX-License-Identifier: Apache-2.0
#include "ops/cpu/planning.hpp"

#include <algorithm>

#include "ops/cpu/kernels.hpp"
#include "ops/cpu/matmul.hpp"

namespace sft::ops::cpu {

namespace {

/// Column sums of rows of `columns` numbers, behind a row weight of `weights` numbers that is converted first.
std::int64_t column_sum_scratch_floats(std::int64_t columns, std::int64_t weights) {
  return std::max(column_sum_floats, columns) + weights;
}

}  // namespace

std::size_t workspace_bytes(int num_threads, const Shapes& shapes, const AttentionNeeds& attention) {
  const std::int64_t key_sum_rows =
      std::min(num_threads * attention.longest_lane, attention.num_kv_heads * attention.num_keys);
  const std::int64_t attention_floats = num_threads * attention_scratch_floats + key_sum_rows * 2 * attention.head_dim;
  const std::int64_t qkv_columns = (shapes.q_heads + 2 * shapes.kv_heads) * shapes.head_dim;
  const std::int64_t num_floats =
      std::max({attention_floats, column_sum_scratch_floats(shapes.hidden, shapes.hidden),
                column_sum_scratch_floats(shapes.head_dim, shapes.head_dim),
                column_sum_scratch_floats(shapes.q_heads * shapes.head_dim, shapes.q_heads * shapes.head_dim),
                column_sum_scratch_floats(qkv_columns, 0), column_sum_scratch_floats(2 * shapes.mlp, 0)});
  return std::max(matmul_workspace_bytes(num_threads), num_floats * sizeof(float));
}

// Below AVX2, oneDNN's float32 products copy blocks of both operands into memory that each thread allocates: 192 of
// the numbers that are summed, for up to 10000 rows, which the threads share, and for 384 columns each. Blocks differ
// in size with the product, and those that are free lie between others: measured, up to a mebibyte more on each thread.
// Products of bf16 numbers are made of float32 tiles, whose sides are at most 512, times the threads: nearly all copies
// have one size, and nothing more was measured.
std::size_t product_copies_bytes(Isa isa, int num_threads, const Shapes& shapes) {
  if (isa > Isa::baseline) return 0;
  constexpr std::int64_t depth = 192, most_rows = 10000, columns = 384, tile_side = 512;
  const std::int64_t longest_side =
      std::max({shapes.tokens, shapes.hidden, (shapes.q_heads + 2 * shapes.kv_heads) * shapes.head_dim, 2 * shapes.mlp,
                shapes.vocab});
  const bool has_tiles = shapes.compute == DType::bf16;
  const std::int64_t limit = has_tiles ? tile_side : most_rows;
  const std::size_t free_bytes = has_tiles ? 0 : std::size_t{1} << 20;
  const std::int64_t floats = (std::min(longest_side, limit * num_threads) + num_threads * columns) * depth;
  return floats * sizeof(float) + num_threads * free_bytes;
}

// The weight gradient of a chunk of n tokens reads and writes V C float32 numbers for 2 n V C operations, whatever V
// and C are: few tokens make it wait for memory. tests/tools/benchmarks/bench_loss_chunk measures how many are enough.
// At V = 151936 and C = 896 on one core, 64 tokens at a time take 1.4 times as long as 256 in float32 and 1.7 times in
// bf16; 1024 save a tenth for four times the memory.
std::int64_t loss_chunk_tokens(const Shapes& shapes) {
  constexpr std::int64_t logits_budget_bytes = std::int64_t{64} << 20, granularity = 64, min_tokens = 256;
  const std::int64_t row_bytes = std::max<std::int64_t>(shapes.vocab, 1) * static_cast<std::int64_t>(sizeof(float));
  const std::int64_t fitting = logits_budget_bytes / row_bytes / granularity * granularity;
  return std::min(shapes.tokens, std::max(min_tokens, fitting));
}

}  // namespace sft::ops::cpu
