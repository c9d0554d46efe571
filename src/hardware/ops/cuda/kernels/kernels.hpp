// SPDX-License-Identifier: Apache-2.0
#pragma once
// The kernels of the CUDA backend, each queued on `stream`; the file of a kernel has the name of its section here.
// Plain C++17, for host code and for nvcc.

#include "ops/cuda/kernels/view.hpp"
#include "ops/expert_arguments.hpp"
#include "ops/factored_arguments.hpp"
#include "ops/fp8_arguments.hpp"
#include "sft/ops/gate.hpp"

namespace sft::ops::cuda {

// Fill, copy with conversion, sums of two matrices.

void fill(View x, float value, cudaStream_t stream);
/// Any pair of float32 and bf16.
void copy(View destination, ConstView source, cudaStream_t stream);
/// destination += source, float32.
void add(View destination, ConstView source, cudaStream_t stream);
void scale(View x, float factor, cudaStream_t stream);
/// x /= max(square root of *squares, epsilon), float32.
void divide_by_norm(View x, const double* squares, float epsilon, cudaStream_t stream);
/// Every row of x += bias (columns).
void add_bias(View x, Weight bias, cudaStream_t stream);

// Random numbers by seed and index, and dropout; see ops::Backend. Views are one row, but those of dropout.

void fill_normal(View x, std::uint64_t seed, std::int64_t first_index, float stddev, cudaStream_t stream);
void fill_uniform(View x, std::uint64_t seed, std::int64_t first_index, float bound, cudaStream_t stream);
void add_uniform(View x, std::uint64_t seed, std::int64_t first_index, float bound, cudaStream_t stream);
/// A seed that is read by the kernel: seed_of_op (ops/random_bits.hpp) of the number at `micro_batch` and these.
struct StoredSeed {
  const std::uint64_t* micro_batch;
  std::uint64_t number, part;
};
/// out may be in.
void dropout(View out, ConstView in, float probability, const StoredSeed& seed, std::int64_t first_index,
             bool accumulate, cudaStream_t stream);

// Vocabulary-parallel embedding (Shoeybi et al. 2019); see ops::Backend.

void embedding_forward(View out, const std::int32_t* tokens, ConstView table, std::int64_t vocab_begin,
                       cudaStream_t stream);

/// Tokens of the same id are summed up in their order, at most 524288 tokens at a time. `workspace` has at least
/// embedding_backward_bytes.
void embedding_backward(View dtable, const std::int32_t* tokens, ConstView dout, std::int64_t vocab_begin,
                        Workspace workspace, cudaStream_t stream);
/// For rows of `columns`: two copies of sorted ids and positions and the counters of the sort, 9 MiB in all, and two
/// rows of sums at least.
[[nodiscard]] std::size_t embedding_backward_bytes(std::int64_t columns);

// Token positions in the order of their ids: a stable radix sort (least significant digit first, 8 bits a pass) of
// tiles (Satish, Harris & Garland 2009), the same whatever the schedule.

inline constexpr std::int64_t sort_tile = 2048;  ///< elements that a block sorts
inline constexpr std::int64_t sort_digits = 256;

/// Keys and the values that travel with them.
struct Pairs {
  std::uint32_t *keys, *values;
};

/// Fills `pairs` with (id of token - vocab_begin, position), ids outside [0, num_ids) becoming num_ids, sorts by id and
/// returns which of `pairs` and `other` holds the result, the other being scratch. Each has num_tokens entries,
/// `counts` sort_digits for each started sort_tile. Moves 12 bytes a token, and about 23 more in each pass.
[[nodiscard]] Pairs sort_tokens(const std::int32_t* tokens, std::int64_t num_tokens, std::int64_t vocab_begin,
                                std::int64_t num_ids, Pairs pairs, Pairs other, std::uint32_t* counts,
                                cudaStream_t stream);

// Sums over many elements, in two stages and always in the same order: partial sums of pieces that follow from the
// shape alone, then their sum.

/// Device memory that sum_squares works in.
inline constexpr std::size_t sum_squares_bytes = 1024 * sizeof(double);
/// result += the sum of x^2, in float64.
void sum_squares(double* result, const float* x, std::int64_t size, Workspace workspace, cudaStream_t stream);

/// sums (columns) += the rows of partials (num_rows, columns), float32.
void add_rows(float* sums, const float* partials, std::int64_t num_rows, std::int64_t columns, cudaStream_t stream);

/// Device memory that column_sums works in.
[[nodiscard]] std::size_t column_sums_bytes(std::int64_t rows, std::int64_t columns);
/// sums (columns) += the column sums of x, in float32.
void column_sums(float* sums, ConstView x, Workspace workspace, cudaStream_t stream);

// Rows of weights with magnitudes of their own; see sft/ops/calls/magnitudes.hpp.

/// bias without data: none.
void scale_columns(View out, ConstView in, const float* factors, float shift, Weight bias, bool accumulate,
                   cudaStream_t stream);
/// The workspace has column_sums_bytes of these rows and columns.
void add_column_products(float* sums, ConstView a, ConstView b, const float* factors, Workspace workspace,
                         cudaStream_t stream);
void add_row_products(float* sums, ConstView a, ConstView b, float factor, cudaStream_t stream);
/// magnitudes is one row.
void magnitude_factors(float* factors, float* inverse_norms, ConstView magnitudes, const float* squares,
                       cudaStream_t stream);

/// Numbers of a matrix in 4 bits; see sft/ops/calls/four_bits.hpp. out is contiguous, its memory aligned to 16 bytes.
void read_four_bits(View out, const FourBitArguments& from, cudaStream_t stream);

// Matrices of 8-bit floats; see sft/ops/fp8.hpp and ops::Backend.

void find_fp8_scale(const Fp8View& to, ConstView in, cudaStream_t stream);
void round_to_fp8(const Fp8Rounding& call, cudaStream_t stream);
void raise_fp8_scales(const Fp8RunView& run, cudaStream_t stream);
void round_fp8_run(const Fp8RunView& run, cudaStream_t stream);
void arrange_fp8(const Fp8Arrangement& arrange, cudaStream_t stream);

// RMSNorm (Zhang & Sennrich 2019); see ops::Backend. The weight is float32 or has the dtype of x.

void rms_norm_forward(View y, float* rstd, ConstView x, Weight weight, float epsilon, cudaStream_t stream);
/// sum may be x.
void add_rms_norm_forward(View sum, View y, float* rstd, ConstView x, ConstView delta, Weight weight, float epsilon,
                          cudaStream_t stream);
void rms_norm_apply(View y, ConstView x, const float* rstd, Weight weight, cudaStream_t stream);

/// Rows of partial sums, of `columns` float32 each, that rms_norm_backward leaves: at most 8 MiB, or a few rows.
[[nodiscard]] std::int64_t rms_norm_backward_partials(std::int64_t rows, std::int64_t columns);
/// The column sums of `partials` are the gradient of the weight; null: not asked for. dresidual may be dx; without
/// data: zero.
void rms_norm_backward(View dx, float* partials, ConstView dy, ConstView x, const float* rstd, Weight weight,
                       ConstView dresidual, cudaStream_t stream);

// The same over columns of several ranks; see sft/ops/calls/split_norm.hpp.

void split_norm_squares(float* squares, ConstView x, cudaStream_t stream);
void split_norm_forward(View y, float* rstd, ConstView x, const float* squares, Weight weight, std::int64_t all_columns,
                        float epsilon, cudaStream_t stream);
/// `partials` as for rms_norm_backward, as many rows.
void split_norm_dots(float* dots, float* partials, ConstView dy, ConstView x, const float* rstd, Weight weight,
                     cudaStream_t stream);
/// dx may be dy.
void split_norm_backward(View dx, ConstView dy, ConstView x, const float* rstd, const float* dots, Weight weight,
                         std::int64_t all_columns, cudaStream_t stream);

// Rotary embedding (Su et al. 2021) in the half-split layout, alone and after RMSNorm of every head (Qwen3); see
// ops::Backend. Rows are tokens, columns n heads of `head_dim`, which is even; tables are (T, head_dim / 2),
// or, for rope, (T, half) with fewer.

void rope_table(float* cosine, float* sine, const std::int32_t* positions, const double* inverse_frequencies,
                std::int64_t num_positions, std::int64_t half_dim, const RopeScaleArguments& scale,
                cudaStream_t stream);

/// Turns by +angle, with direction -1 back. out may be in, and is where the first 2 `half` dims of a head are not all.
void rope(View out, ConstView in, const float* cosine, const float* sine, std::int64_t head_dim, std::int64_t half,
          float direction, cudaStream_t stream);

/// head_dim of at most 256, here and below. rstd (T, n). cosine and sine are null where heads are normed alone.
void norm_rope_forward(View out, float* rstd, ConstView in, Weight weight, const float* cosine, const float* sine,
                       std::int64_t head_dim, float epsilon, cudaStream_t stream);

/// Rows of partial sums, of head_dim float32 each, that norm_rope_backward leaves for `num_heads` heads of all tokens.
[[nodiscard]] std::int64_t norm_rope_backward_partials(std::int64_t num_heads);
/// din may be dout. The column sums of `partials` are the gradient of the weight; null: not asked for.
void norm_rope_backward(View din, float* partials, ConstView dout, ConstView in, const float* rstd, Weight weight,
                        const float* cosine, const float* sine, std::int64_t head_dim, cudaStream_t stream);

// Gated activations; see sft/ops/calls/gated.hpp.

void gated_forward(const GateRule& rule, View act, ConstView gate_up, cudaStream_t stream);
/// dgate_up may be gate_up, act may be dact.
void gated_backward(const GateRule& rule, View dgate_up, View act, ConstView dact, ConstView gate_up,
                    cudaStream_t stream);

// Routers of experts; see sft/ops/calls/router.hpp.

void router_forward(const RouterArguments& router, std::int32_t* experts, float* weights, cudaStream_t stream);
void router_backward(const RouterArguments& router, float* dlogits, const std::int32_t* experts, const float* dweights,
                     cudaStream_t stream);
/// Blocks that sum up tokens at most: each leaves a row of float64 for the experts in the workspace.
inline constexpr std::int64_t router_sums_blocks = 512;
void router_sums(const RouterSumsArguments& sums, Workspace workspace, cudaStream_t stream);
void router_sums_backward(const RouterSumsBackwardArguments& sums, cudaStream_t stream);

// Tokens in the order of their experts (expert_rows); see sft/ops/calls/expert_rows.hpp.

/// Device memory that expert_order works in: two copies of sorted experts and choices and the counters of the sort.
[[nodiscard]] std::size_t expert_order_bytes(std::int64_t num_choices, std::int64_t num_experts);
void expert_order(const ExpertOrderArguments& order, Workspace workspace, cudaStream_t stream);
void gather_tokens(const GatherTokensArguments& gather, cudaStream_t stream);
void combine_rows(const CombineRowsArguments& combine, cudaStream_t stream);
void combine_weights_backward(const CombineWeightsArguments& combine, cudaStream_t stream);

/// Rows of results, group by group. Arrays are in device memory.
struct BiasRows {
  void* const* c;             ///< (G) where the rows of a group begin
  const void* const* biases;  ///< (G) of num_columns
  const std::uint64_t* ends;  ///< (G) rows of this group and of all before it
  std::int64_t num_groups, num_rows, num_columns;
  bool is_bf16;     ///< c and biases; else float32
  bool is_aligned;  ///< c and biases begin at multiples of 16 bytes
  std::int64_t stride = 0;
};
/// Every row becomes the bias of its group.
void fill_biases(const BiasRows& rows, cudaStream_t stream);

// Vocabulary-parallel cross-entropy (Shoeybi et al. 2019) in the three steps of ops::Backend.

void soft_cap(View x, float cap, cudaStream_t stream);
void cross_entropy_max(const CrossEntropyArguments& chunk, cudaStream_t stream);
void cross_entropy_partials(const CrossEntropyArguments& chunk, cudaStream_t stream);
/// metrics (4) += the sums of ops::CrossEntropyFinish.
void cross_entropy_metrics(const CrossEntropyArguments& chunk, double* metrics, cudaStream_t stream);
/// dlogits may be the logits.
void cross_entropy_gradient(const CrossEntropyArguments& chunk, View dlogits, double gradient_scale,
                            cudaStream_t stream);

// A step of an optimizer that treats elements alone; see ops::Update.

struct UpdateArguments : UpdateFactors {
  View parameters{};                ///< a row of float32 or bf16, as all others
  View state[max_update_states]{};  ///< those of the rule; all float32 or all bf16
  ConstView gradients{};            ///< float32
  View copy{};                      ///< bf16, of float32 parameters; without data: none
};

void update(const UpdateArguments& step, cudaStream_t stream);

// A step of AdamW with state in 8 bits; see ops::BlockwiseUpdate.

struct BlockwiseArguments : UpdateFactors {
  BlockFactors blocks{};
  void* parameters = nullptr;  ///< float32 or bf16
  bool has_bf16_parameters = false;
  const float* gradients = nullptr;
  void* copy = nullptr;      ///< bf16, of float32 parameters; may be null
  std::uint8_t* codes[2]{};  ///< of both moments
  std::int64_t size = 0;     ///< elements of the views
};

void update_blockwise(const BlockwiseArguments& step, cudaStream_t stream);
void raise_scales(const BlockwiseArguments& step, cudaStream_t stream);

// Steps of Adafactor; see sft/ops/calls/factored_update.hpp.

/// Device memory that these sums work in, whatever the shape.
inline constexpr std::size_t factored_scratch_bytes = std::size_t{8} << 20;

/// A matrix has at most factored_scratch_bytes / sizeof(double) columns.
void sum_squares_by_dim(const SquareSumsArguments& sums, Workspace workspace, cudaStream_t stream);
void update_factors(const MomentFactorsArguments& step, cudaStream_t stream);
void add_direction_squares(const FactoredArguments& step, Workspace workspace, cudaStream_t stream);
void update_factored(const FactoredArguments& step, cudaStream_t stream);

// Small tables from host to device memory within a step.

/// Queues `stream` to write `bytes` bytes, a multiple of 16, to `destination` in device memory, aligned to 16. `source`
/// is ordinary host memory and is read before the call returns; nothing waits. For tables of kilobytes: the bytes
/// travel as the arguments of kernels, 3840 each, so that neither pinned memory nor a copy that waits for it is needed.
void upload(void* destination, const void* source, std::size_t bytes, cudaStream_t stream);

}  // namespace sft::ops::cuda
