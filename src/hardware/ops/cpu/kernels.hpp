// SPDX-License-Identifier: Apache-2.0
#pragma once
// The vectorised loops of the CPU backend, as a table of function pointers: the sources in kernels/ are compiled once
// for each instruction set and one table is chosen at run time. This header and everything under kernels/ include no
// standard header with inline functions, whose AVX-512 copies the linker could otherwise pick for everyone.
//
// Legend: T tokens, C hidden size, H query heads, K key/value heads, D head dim, F MLP columns, V vocabulary rows, N
// any.

#include <cstdint>

#include "ops/expert_arguments.hpp"
#include "ops/factored_arguments.hpp"
#include "ops/fp8_arguments.hpp"
#include "ops/kernel_arguments.hpp"
#include "sft/ops/gate.hpp"

namespace sft::ops::cpu {

/// Scratch floats shared by all threads of an op.
struct Scratch {
  float* data;
  std::int64_t num_floats;
};

/// A sequence::AttentionSpan, for kernels: query row q_begin + i sees key row k_begin + j iff i + horizon < j <= i +
/// diagonal. Without a window horizon is no_horizon.
struct AttentionRange {
  std::int64_t q_begin, k_begin, k_len, diagonal, horizon;
};
/// Lies below every key, also when rows are added to it or taken from it.
inline constexpr std::int64_t no_horizon = -(std::int64_t{1} << 62);

/// Queries [q_begin, q_begin + q_len), q_len <= attention_tile, and the key ranges [range_begin, range_end) they see.
struct AttentionTile {
  std::int64_t q_begin, q_len, range_begin, range_end;
};

/// Tiles [tile_begin, tile_end), whose keys lie in [k_begin, k_end). Lanes share no query, and no key of one lies in
/// the range of another.
struct AttentionLane {
  std::int64_t tile_begin, tile_end, k_begin, k_end;
};

/// Scratch rows of dk and dv, side by side: `rows_of_thread` for each thread, or one for each key/value head and key.
struct KeySumScratch {
  float* data;
  bool is_per_thread;
  std::int64_t rows_of_thread;
};

struct AttentionArguments {
  ConstView q, k, v;  ///< (T, H D), (Tk, K D), (Tk, K D)
  float scale;
  std::int64_t num_heads, num_kv_heads, head_dim;
  const AttentionRange* ranges;
  const AttentionTile* tiles;
  const AttentionLane* lanes;
  std::int64_t num_tiles, num_lanes;
  float softcap;  ///< of the scores; 0: none

  // Forward.
  float* lse;       ///< (T, H)
  View out;         ///< (T, H D)
  bool merges;      ///< with what out, float32 then, and lse hold
  ConstView sinks;  ///< (H); without data: none

  // Backward.
  ConstView dout;                ///< (T, H D)
  const float* final_lse;        ///< (T, H)
  const float* delta;            ///< (T, H)
  View dq, dk, dv;               ///< (T, H D), (Tk, K D), (Tk, K D)
  bool adds_to_dq, adds_to_dkv;  ///< to what they, float32 then, hold
  KeySumScratch key_sums;        ///< when dk and dv are bf16
};

/// Queries and keys of one block product of the attention.
inline constexpr std::int64_t attention_tile = 64;
inline constexpr std::int64_t max_head_dim = 256;
/// Scratch of one thread of the attention at most: ten tiles of operands and three of scores.
inline constexpr std::int64_t attention_scratch_floats = attention_tile * (10 * max_head_dim + 3 * attention_tile);

/// Scratch of an op that sums up columns, unless one row of them is larger.
inline constexpr std::int64_t column_sum_floats = std::int64_t{1} << 18;

struct UpdateArguments : UpdateFactors {
  void* parameters = nullptr;           ///< float32 or bf16
  void* state[max_update_states] = {};  ///< those of the rule; all float32 or all bf16
  const float* gradients = nullptr;
  std::uint16_t* copy = nullptr;  ///< of float32 parameters; may be null
  bool has_bf16_parameters = false, has_bf16_state = false;
  std::int64_t size = 0;
};

/// The state of the UpdateArguments are codes.
struct BlockwiseArguments : UpdateArguments {
  BlockFactors blocks{};
};

/// c (m, n) = a (m, k) b (k, n) [+ bias (n)] [+ c], float32 unless stated.
struct MatmulArguments {
  const void *a, *b;
  std::int64_t a_row_stride, a_column_stride, b_row_stride, b_column_stride;
  const void* bias;  ///< may be null
  void* c;
  std::int64_t c_stride;
  std::int64_t m, n, k;
  bool accumulate;
  bool has_bf16_operands = false;  ///< a and b
  bool has_bf16_bias = false;
  bool has_bf16_result = false;  ///< c, with bf16 operands, which is rounded once
};
/// Columns of b that are worked on at a time; small_matmul takes scratch for k x this many doubles.
inline constexpr std::int64_t small_matmul_panel = 16;

/// Rows of a and terms of sums that packed_matmul works on at a time: copies of 144 KiB for a second-level cache of 512
/// KiB, and panels of b of 16 KiB for a first-level cache of 32 KiB. Measured on Zen 4 with AVX2; 72 to 240 rows and
/// 192 to 512 terms differ by less than 3 %.
inline constexpr std::int64_t packed_block_rows = 144, packed_block_depth = 256;
/// Columns of b at a time: more let copies of a be read more often. The copy, 1.5 MiB, shares the third-level cache.
inline constexpr std::int64_t packed_block_columns = 1536;
/// Rows of a bf16 result at a time, whose sums are float32 in scratch; b is copied anew for each.
inline constexpr std::int64_t packed_sum_rows = 4 * packed_block_rows;
/// Scratch of packed_matmul for so many columns at a time, a multiple of 64; it takes no fewer than 64.
constexpr std::int64_t packed_matmul_floats(std::int64_t columns, bool has_bf16_result) {
  constexpr std::int64_t behind_copies = 16;
  const std::int64_t sums = has_bf16_result ? packed_sum_rows * columns : 0;
  return (packed_block_rows + columns) * packed_block_depth + 2 * behind_copies + sums;
}

/// The ops of ops::Backend of the same names, with the shapes stated there. Row weights are float32.
struct Kernels {
  void (*fill)(View x, float value);
  void (*copy)(View destination, ConstView source);
  void (*copy_transposed)(View destination, ConstView source);  ///< destination is float32
  void (*add)(View destination, ConstView source);
  void (*scale)(View x, float factor);
  double (*sum_squares)(const float* x, std::int64_t size);
  void (*fill_normal)(View x, std::uint64_t seed, std::int64_t first_index, float stddev);
  void (*fill_uniform)(View x, std::uint64_t seed, std::int64_t first_index, float bound);
  void (*add_uniform)(View x, std::uint64_t seed, std::int64_t first_index, float bound);
  void (*dropout)(View out, ConstView in, float probability, std::uint64_t seed, std::int64_t first_index,
                  bool accumulate);
  void (*column_sums)(float* sums, ConstView x, Scratch scratch);

  void (*scale_columns)(View out, ConstView in, const float* factors, float shift, const float* bias, bool accumulate);
  void (*add_column_products)(float* sums, ConstView a, ConstView b, const float* factors);
  void (*add_row_products)(float* sums, ConstView a, ConstView b, float factor);
  void (*magnitude_factors)(float* factors, float* inverse_norms, ConstView magnitudes, const float* squares);
  void (*read_four_bits)(View out, const FourBitArguments& from);
  void (*find_fp8_scale)(Fp8View to, ConstView in);
  void (*round_to_fp8)(const Fp8Rounding& call);
  void (*raise_fp8_scales)(const Fp8RunView& run);
  void (*round_fp8_run)(const Fp8RunView& run);
  void (*arrange_fp8)(const Fp8Arrangement& arrange);
  /// out (float32, or bf16, which holds them unless they are below 2^-133) = the numbers from that line and term on.
  void (*read_fp8)(View out, ConstFp8View from, std::int64_t first_line, std::int64_t first_term);

  void (*embedding_forward)(View out, const std::int32_t* tokens, ConstView table, std::int64_t vocab_begin);
  void (*embedding_backward)(View dtable, const std::int32_t* tokens, ConstView dout, std::int64_t vocab_begin);

  void (*rms_norm_forward)(View y, float* rstd, ConstView x, const float* weight, float epsilon);
  void (*add_rms_norm_forward)(View sum, View y, float* rstd, ConstView x, ConstView delta, const float* weight,
                               float epsilon);
  void (*rms_norm_apply)(View y, ConstView x, const float* rstd, const float* weight);
  void (*rms_norm_backward)(View dx, float* dweight, ConstView dy, ConstView x, const float* rstd, const float* weight,
                            ConstView dresidual, Scratch scratch);
  void (*split_norm_squares)(float* squares, ConstView x);
  void (*split_norm_forward)(View y, float* rstd, ConstView x, const float* squares, const float* weight,
                             std::int64_t all_columns, float epsilon);
  void (*split_norm_dots)(float* dots, float* dweight, ConstView dy, ConstView x, const float* rstd,
                          const float* weight, Scratch scratch);
  void (*split_norm_backward)(View dx, ConstView dy, ConstView x, const float* rstd, const float* dots,
                              const float* weight, std::int64_t all_columns);

  void (*rope_table)(float* cosine, float* sine, const std::int32_t* positions, const double* inverse_frequencies,
                     std::int64_t num_positions, std::int64_t half_dim, const RopeScaleArguments& scale);
  void (*rope_forward)(View out, ConstView in, const float* cosine, const float* sine, std::int64_t head_dim,
                       std::int64_t half);
  void (*rope_backward)(View din, ConstView dout, const float* cosine, const float* sine, std::int64_t head_dim,
                        std::int64_t half);
  /// cosine and sine are null where heads are normed alone.
  void (*norm_rope_forward)(View out, float* rstd, ConstView in, const float* weight, const float* cosine,
                            const float* sine, std::int64_t head_dim, float epsilon);
  void (*norm_rope_backward)(View din, float* dweight, ConstView dout, ConstView in, const float* rstd,
                             const float* weight, const float* cosine, const float* sine, std::int64_t head_dim,
                             Scratch scratch);

  void (*attention_forward)(const AttentionArguments& arguments, Scratch scratch);
  void (*attention_delta)(float* delta, ConstView out, ConstView dout, std::int64_t head_dim);
  void (*attention_backward)(const AttentionArguments& arguments, Scratch scratch);
  void (*attention_sinks_backward)(float* dsinks, ConstView sinks, const float* lse, const float* delta,
                                   std::int64_t num_tokens);

  void (*router_forward)(const RouterArguments& router, std::int32_t* experts, float* weights);
  void (*router_backward)(const RouterArguments& router, float* dlogits, const std::int32_t* experts,
                          const float* dweights);
  void (*router_sums)(const RouterSumsArguments& sums, Scratch scratch);
  void (*router_sums_backward)(const RouterSumsBackwardArguments& sums);
  void (*expert_order)(const ExpertOrderArguments& order);
  void (*gather_tokens)(const GatherTokensArguments& gather);
  void (*combine_rows)(const CombineRowsArguments& combine);
  void (*combine_weights_backward)(const CombineWeightsArguments& combine);
  void (*gated_forward)(const GateRule& rule, View act, ConstView gate_up);
  void (*gated_backward)(const GateRule& rule, View dgate_up, View act, ConstView dact, ConstView gate_up);

  void (*soft_cap)(View x, float cap);
  void (*cross_entropy_max)(const CrossEntropyArguments& chunk);
  void (*cross_entropy_partials)(const CrossEntropyArguments& chunk);
  void (*cross_entropy_gradient)(const CrossEntropyArguments& chunk, View dlogits, double gradient_scale);

  /// Of float32 numbers, with float64 sums.
  void (*small_matmul)(const MatmulArguments& product, double* panel);
  /// On the calling thread. The terms of every sum are added in one order, whatever the size of the product.
  void (*packed_matmul)(const MatmulArguments& product, Scratch scratch);
  /// Of one row or one column, with scratch for k numbers. One of the strides of the matrix is 1.
  void (*vector_matmul)(const MatmulArguments& product, Scratch scratch);

  void (*update)(const UpdateArguments& step);
  void (*update_blockwise)(const BlockwiseArguments& step);
  void (*raise_scales)(const BlockwiseArguments& step);

  void (*sum_squares_by_dim)(const SquareSumsArguments& sums);
  void (*update_factors)(const MomentFactorsArguments& step);
  double (*direction_squares)(const FactoredArguments& step);
  void (*update_factored)(const FactoredArguments& step);
};

}  // namespace sft::ops::cpu
