// SPDX-License-Identifier: Apache-2.0
#pragma once
// The local math of one device. Nothing here communicates; every op is queued on the stream the backend was made for.
//
// Legend: T tokens of this rank, C hidden size, H query heads, K key/value heads, D head dim, F MLP columns, V
// vocabulary rows of this rank, N any size. "compute dtype" is float32 or bf16, the same in all tensors of a call that
// have it; sums run in float32 or float64 in both. "+=" adds to what the output holds; outputs are otherwise
// overwritten. Views may have a stride between rows where a comment says "strided"; all others are contiguous.
// Gradients of parameters are always float32 and always "+=". Tensors belong to the caller. Memory that an op reads or
// writes stays valid until the stream has passed it.
//
// What an op writes shares memory with no other tensor of the call, unless it says that it may be that tensor.
//
// Misuse is a std::logic_error where it is found. make_checked_backend (factory.hpp) finds everything that is stated
// here of shapes, dtypes, strides and shared memory. The backends themselves look for what costs nothing: the CPU
// backend finds float64 and int32 where float32 or bf16 is due; a tensor that is not float32 or not contiguous where it
// has to be; sizes that do not fit in copy and matmul, and dtypes in matmul; a head dim that is odd or above 256 in
// attention_forward, attention_backward and norm_rope_*; an attention plan that was made for other sizes; a workspace
// that is too small when it is set or, for attention_backward, used.

#include <array>
#include <cstdint>
#include <memory>
#include <variant>
#include <vector>

#include "sft/device/device.hpp"
#include "sft/ops/experts.hpp"
#include "sft/ops/factored_moment.hpp"
#include "sft/ops/four_bits.hpp"
#include "sft/ops/fp8.hpp"
#include "sft/ops/magnitudes.hpp"
#include "sft/ops/split_norm.hpp"
#include "sft/ops/stochastic_rounding.hpp"
#include "sft/ops/update_rules.hpp"
#include "sft/sequence/attention.hpp"
#include "sft/tensor/tensor.hpp"

namespace sft::ops {

/// Attention spans in the form that the kernels of one backend read; see Backend::plan_attention.
class AttentionPlan {
 public:
  virtual ~AttentionPlan() = default;
  /// All that calls with this plan take from it when they are queued: two calls that differ in nothing but plans of the
  /// same words queue the same work, which finds the spans in device memory when it runs. Empty: no other call queues
  /// what calls with this plan do.
  [[nodiscard]] virtual std::vector<std::uint64_t> launch_words() const { return {}; }
};

/// c = op(a) op(b) [+ bias] [+ c]. op transposes where asked. a, b, c are 2-D and may be strided; a and b have the same
/// compute dtype, c has it too or is float32. bias, of a's dtype, has one entry per column of c or is empty.
struct Matmul {
  ConstTensor a, b;
  Tensor c;
  bool transpose_a = false, transpose_b = false;
  bool accumulate = false;
  ConstTensor bias{};
};

/// See Backend::dropout. The seed is read when the op runs, so that calls of other micro-batches are the same call.
struct Dropout {
  Tensor out;         ///< float32 or bf16, strided; may be in
  ConstTensor in;     ///< float32 or bf16, of the same shape, strided
  float probability;  ///< 0 <= probability < 1
  ConstTensor seed;   ///< (8) uint8, aligned to 8 bytes: a 64-bit number as processors hold it, of the micro-batch
  // Of this op: others draw other numbers.
  std::uint64_t number = 0;
  std::uint64_t part = 0;
  std::int64_t first_index = 0;
  bool accumulate = false;
};

/// RMSNorm of a sum; see Backend::add_rms_norm_forward.
struct AddRmsNormForward {
  Tensor sum;         ///< (T, C) compute dtype; may be x
  Tensor y;           ///< (T, C) compute dtype; may be delta
  Tensor rstd;        ///< (T) float32
  ConstTensor x;      ///< (T, C) compute dtype
  ConstTensor delta;  ///< (T, C) compute dtype or float32
  NormWeight weight;  ///< (C) compute dtype or float32
  float epsilon;
};

/// See Backend::rms_norm_apply.
struct RmsNormApply {
  Tensor y;           ///< (T, C) compute dtype
  ConstTensor x;      ///< (T, C) compute dtype
  ConstTensor rstd;   ///< (T) float32
  NormWeight weight;  ///< (C) compute dtype or float32
};

/// See Backend::rms_norm_backward.
struct RmsNormBackward {
  Tensor dx;                ///< (T, C) compute dtype; may be x
  Tensor dweight;           ///< (C) float32; empty: not asked for
  ConstTensor dy;           ///< (T, C) compute dtype or float32
  ConstTensor x;            ///< (T, C) compute dtype
  ConstTensor rstd;         ///< (T) float32
  NormWeight weight;        ///< (C) compute dtype or float32
  ConstTensor dresidual{};  ///< (T, C) compute dtype, may be dx; empty: zero
};

/// The angles of the rotary embedding as Backend::rope_table writes them, (T, R/2) float32: the first R dims of a head
/// turn, D unless an op says that there may be fewer.
struct RopeTable {
  ConstTensor cosine, sine;
};

/// What the cosine and sine of a position are multiplied with: factor (1 + beta ln(1 + floor(position / length))).
/// With beta, a table turns queries that grow with their position (Ministral 3, after Nakanishi 2025).
struct RopeScale {
  float factor = 1.0F;
  float beta = 0.0F;
  std::int64_t length = 1;  ///< of the positions that do not grow, above 0
};

/// See Backend::norm_rope_forward.
struct NormRopeForward {
  Tensor out;         ///< (T, n, D) compute dtype, strided; may be in
  Tensor rstd;        ///< (T, n) float32
  ConstTensor in;     ///< (T, n, D) compute dtype, strided
  NormWeight weight;  ///< (D) compute dtype or float32
  RopeTable table;    ///< of all dims, or empty: heads are normed alone
  float epsilon;
};

/// See Backend::norm_rope_backward.
struct NormRopeBackward {
  Tensor din;         ///< (T, n, D) compute dtype, strided; may be dout
  Tensor dweight;     ///< (D) float32; empty: not asked for
  ConstTensor dout;   ///< (T, n, D) compute dtype, strided
  ConstTensor in;     ///< (T, n, D) compute dtype, strided: the forward pass's input
  ConstTensor rstd;   ///< (T, n) float32
  NormWeight weight;  ///< (D) compute dtype or float32
  RopeTable table;    ///< as in the forward pass
};

/// H is a multiple of K. The score of a query and a key is their product times scale or, with a softcap c, c tanh(that
/// / c) (Gemma 2). With `merge`, out and lse hold the result over the keys of earlier calls (0 and -inf where there was
/// none) and become that over all; out is float32 then. Else both are overwritten, queries outside the plan's spans
/// with 0 and -inf.
///
/// A sink is the score of one more key, whose value is 0, for every query of its head within the plan's spans (gpt-oss,
/// after Xiao et al. 2024). It belongs to one call of those that are merged, the first.
struct AttentionForward {
  ConstTensor q;  ///< (T, H, D) compute dtype, strided
  ConstTensor k;  ///< (Tk, K, D) compute dtype, strided
  ConstTensor v;  ///< (Tk, K, D) compute dtype, strided
  Tensor out;     ///< (T, H, D) compute dtype or float32, strided
  Tensor lse;     ///< (T, H) float32
  float scale;
  const AttentionPlan& plan;
  bool merge = false;
  float softcap = 0.0F;    ///< 0: none
  ConstTensor sinks = {};  ///< (H) float32 or bf16; empty: none, as with `merge`
};

/// With accumulate_dq or accumulate_dkv the gradients are added to what dq, or dk and dv, hold; they are float32 then.
/// Else they are overwritten, rows outside the plan's spans with 0.
struct AttentionBackward {
  ConstTensor q, k, v;     ///< as in the forward pass
  ConstTensor dout;        ///< (T, H, D) compute dtype, strided
  ConstTensor lse, delta;  ///< (T, H) float32; the final log-sum-exp, and attention_delta
  Tensor dq;               ///< (T, H, D) compute dtype or float32, strided
  Tensor dk, dv;           ///< (Tk, K, D) compute dtype or float32, both the same; strided
  float scale;
  const AttentionPlan& plan;
  bool accumulate_dq = false, accumulate_dkv = false;
  float softcap = 0.0F;  ///< as in the forward pass
  ConstTensor out = {};  ///< (T, H, D) compute dtype, strided: the final output, for a library; empty: not at hand
};

/// See Backend::attention_sinks_backward.
struct AttentionSinksBackward {
  Tensor dsinks;           ///< (H) float32
  ConstTensor sinks;       ///< (H) float32 or bf16
  ConstTensor lse, delta;  ///< (T, H) float32; the final log-sum-exp, and attention_delta
};

/// What the loss of a token is, of the probability p that the model gives its target.
struct TokenLoss {
  /// -p log(p), whose first factor has no gradient (Dynamic Fine-Tuning, Wu et al. 2025), in place of -log(p).
  bool dft = false;
  /// The share of the loss that is the mean of -log(p) over the whole vocabulary (Szegedy et al. 2016). 0 with dft.
  double label_smoothing = 0.0;
  std::int64_t vocab = 0;  ///< ids of the whole vocabulary; needed with label_smoothing

  /// Sums over the vocabulary that a token's loss takes: rows of CrossEntropy::partials.
  [[nodiscard]] int num_partials() const { return label_smoothing > 0 ? 4 : 3; }
};

/// A chunk of T tokens of the vocabulary-parallel cross-entropy (Shoeybi et al. 2019); see Backend::cross_entropy_* for
/// which of it each step reads and writes.
struct CrossEntropy {
  Tensor logits;  ///< (T, V) float32; after cross_entropy_partials it holds exp(logit - max)
  Tensor max;     ///< (T) float32: maximum over the whole vocabulary once reduced over tp
  /// (3, T) float32: sum exp(x - max); the target's logit or 0; sum exp(x - max) (x - max). With label smoothing (4,
  /// T): and sum (x - max).
  Tensor partials;
  ConstTensor targets;       ///< (T) int32 global token ids; any value where the weight is 0
  ConstTensor loss_weights;  ///< (T) float32
  std::int64_t vocab_begin;  ///< global id of the first column
  TokenLoss loss = {};
  float logit_cap = 0.0F;  ///< of soft_cap, by which the logits came: dlogits are those before it; 0: there was none
};

using UpdateRule = UpdateRuleList<std::variant>;

/// One step over vectors (N), contiguous, computed in float32. What is bf16 is rounded as `rounding` says.
struct Update {
  Tensor parameters;      ///< float32 or bf16
  ConstTensor gradients;  ///< float32; may be the parameters
  /// All float32 or all bf16: as many as the rule keeps. What else is given is not touched.
  std::array<Tensor, 2> state;
  Tensor copy;  ///< bf16, or empty: receives new float32 parameters, rounded to the nearest
  UpdateRule rule;
  double gradient_scale = 1.0;  ///< clipping factor, applied to the gradient as it is read
  StochasticRounding rounding = {};
};

/// Neighbouring elements of a parameter that share a scale, where state is kept in 8 bits.
inline constexpr std::int64_t block_elements = 256;

/// One step of AdamW with state in 8 bits (Dettmers et al. 2022, "8-bit Optimizers via Block-wise Quantization"): an
/// element's number is that of its code, in the dynamic code of the paper, times the scale of its block. What the
/// moments become is computed in float32; the parameter follows from them, and they are rounded to the nearest code,
/// negative ones to a negative one.
struct BlockwiseUpdate {
  /// The rule is AdamW. State: codes, uint8, exp_avg's with a sign, exp_avg_sq's without.
  Update update;
  /// float32, of both moments: the largest magnitude of each block.
  std::array<Tensor, 2> scales;
  /// Empty: blocks lie one behind the other in the views, the last one may be shorter, and their new scales take the
  /// place of the old ones. Else blocks are those of the logical tensor, in which update.rounding says which elements
  /// these are: some of a block may be elsewhere. The first scale is that of block first_block; the old ones are only
  /// read, and these are the new ones.
  std::array<Tensor, 2> new_scales = {};
  std::int64_t first_block = 0;
};

/// Calls of attention that a library has done so far (AttentionKernels).
struct LibraryCalls {
  std::int64_t forward = 0, backward = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;
  [[nodiscard]] virtual device::Stream& stream() = 0;

  /// Scratch memory the ops of this backend may use, of any dtype and workspace_bytes() for the shapes that ops are
  /// called with (see factory.hpp); std::logic_error here where it is too small for any, else in the op. Set it before
  /// the first op; it stays the caller's and must outlive the backend's use.
  virtual void set_workspace(Tensor workspace) = 0;

  // Elementary
  virtual void fill(Tensor x, float value) = 0;  ///< float32 or bf16, strided
  /// Any dtype pair of float32 and bf16. Both have as many elements and, where one of them is strided, as many rows.
  virtual void copy(Tensor destination, ConstTensor source) = 0;
  /// destination += source, rounded to its dtype; dtypes and shapes as for copy.
  virtual void add(Tensor destination, ConstTensor source) = 0;
  virtual void scale(Tensor x, float factor) = 0;              ///< x *= factor; float32 or bf16, contiguous
  virtual void sum_squares(Tensor result, ConstTensor x) = 0;  ///< float64 (1) += sum of float32 x^2
  /// x /= max(square root of `squares`, float64 (1), epsilon); float32, contiguous.
  virtual void divide_by_norm(Tensor x, ConstTensor squares, float epsilon) = 0;
  /// x[i] = mean 0, standard deviation `stddev`, drawn from (seed, first_index + i) alone (Box-Muller on a
  /// counter-based generator): a slice of a tensor gets the same numbers on any mesh. float32 or bf16, contiguous.
  virtual void fill_normal(Tensor x, std::uint64_t seed, std::int64_t first_index, float stddev) = 0;
  /// The same, evenly distributed in [-bound, bound).
  virtual void fill_uniform(Tensor x, std::uint64_t seed, std::int64_t first_index, float bound) = 0;
  /// x += the numbers of fill_uniform, rounded once.
  virtual void add_uniform(Tensor x, std::uint64_t seed, std::int64_t first_index, float bound) = 0;
  /// out = or, with `accumulate`, += in / (1 - probability), elements that are dropped being 0 (Srivastava et al.
  /// 2014). An element of in that lies i elements behind the first one is dropped with that probability, drawn from
  /// the seed and first_index + i alone: the backward pass is the same call, and so is any slice of the tensor, be it
  /// of rows or columns where they lie.
  virtual void dropout(const Dropout& dropout) = 0;

  // Embedding, vocabulary-parallel: `table` (V, C) holds ids [vocab_begin, vocab_begin + V); others give zero rows.
  // tokens (T) int32. out (T, C) has the table's dtype or is float32; dout (T, C) has the compute dtype;
  // dtable (V, C) is float32.
  virtual void embedding_forward(Tensor out, ConstTensor tokens, ConstTensor table, std::int64_t vocab_begin) = 0;
  virtual void embedding_backward(Tensor dtable, ConstTensor tokens, ConstTensor dout, std::int64_t vocab_begin) = 0;

  // RMSNorm (Zhang & Sennrich 2019).
  /// y = x * rstd * weight. x, y (T, C) compute dtype; rstd (T) float32; weight (C) compute dtype or float32.
  virtual void rms_norm_forward(Tensor y, Tensor rstd, ConstTensor x, const NormWeight& weight, float epsilon) = 0;
  /// sum = x + delta, rounded to its dtype, then as above of sum.
  virtual void add_rms_norm_forward(const AddRmsNormForward& norm) = 0;
  /// y = x * rstd * weight with a known rstd.
  virtual void rms_norm_apply(const RmsNormApply& norm) = 0;
  /// dx = dresidual + gradient through the norm.
  virtual void rms_norm_backward(const RmsNormBackward& norm) = 0;

  // The same over columns of several ranks; see split_norm.hpp.
  /// squares (T) float32 = the sum over N of x^2; x (T, N) compute dtype, strided.
  virtual void split_norm_squares(Tensor squares, ConstTensor x) = 0;
  virtual void split_norm_forward(const SplitNormForward& norm) = 0;
  virtual void split_norm_dots(const SplitNormDots& norm) = 0;
  virtual void split_norm_backward(const SplitNormBackward& norm) = 0;

  // Rotary embedding (Su et al. 2021) in the half-split layout of Hugging Face: pairs are R/2 dims apart.
  /// cosine, sine (T, R/2) float32, scaled, of positions (T) int32 times inverse_frequencies (R/2) float64.
  virtual void rope_table(Tensor cosine, Tensor sine, ConstTensor positions, ConstTensor inverse_frequencies,
                          const RopeScale& scale) = 0;
  /// out, in (T, n, D) compute dtype, both strided. May be in place, and is with R < D: the other dims stay.
  virtual void rope_forward(Tensor out, ConstTensor in, const RopeTable& table) = 0;
  /// din, dout as out and in of the forward pass, in place where these are.
  virtual void rope_backward(Tensor din, ConstTensor dout, const RopeTable& table) = 0;
  /// Rotary embedding of heads that RMSNorm has gone over first (Qwen3).
  virtual void norm_rope_forward(const NormRopeForward& heads) = 0;
  virtual void norm_rope_backward(const NormRopeBackward& heads) = 0;

  // Linear algebra
  /// The product that `product` describes; nothing when c is empty. Throws std::logic_error when dims or dtypes do not
  /// fit.
  virtual void matmul(const Matmul& product) = 0;
  /// dbias (N) += column sums of dy (T, N), strided.
  virtual void bias_backward(Tensor dbias, ConstTensor dy) = 0;

  // Magnitudes of the rows of weights; see magnitudes.hpp.
  virtual void scale_columns(const ScaleColumns& columns) = 0;
  virtual void add_column_products(const ColumnProducts& products) = 0;
  virtual void add_row_products(const RowProducts& products) = 0;
  virtual void magnitude_factors(const MagnitudeFactors& factors) = 0;

  // Matrices in 4 bits; see four_bits.hpp.
  virtual void read_four_bits(const ReadFourBits& read) = 0;

  // Matrices of 8-bit floats; see fp8.hpp.
  /// Writes the scale that the numbers of `in` ask for, of a matrix that has one for all; the codes are not touched.
  virtual void find_fp8_scale(const RoundToFp8& round) = 0;
  /// Writes the codes of the numbers of `in` divided by their scales: rounded to the nearest, ties to even; what is
  /// larger than the format's largest number, or infinite, becomes that, and NaN stays NaN. The scale of a whole matrix
  /// is read, for others may have had a part in it; those of tiles are found and written.
  /// Both layouts of a matrix where two products need them: the codes and scales of two calls.
  virtual void round_to_fp8(const RoundToFp8& round) = 0;
  /// Makes the scales of the tiles that the run has elements of as large as its numbers ask for, where they are
  /// smaller: behind calls for all runs of a matrix, whose scales were fp8_least_scale, they are what round_to_fp8
  /// finds for it.
  virtual void raise_fp8_scales(const Fp8Run& run) = 0;
  /// Writes the codes of the run, as round_to_fp8 does, with scales that are read.
  virtual void round_fp8_run(const Fp8Run& run) = 0;
  /// Codes of a matrix, of codes that lie as its numbers did: with zeros behind its lines. Its scales where it has
  /// blocks.
  virtual void arrange_fp8(const ArrangeFp8& arrange) = 0;
  virtual void fp8_matmul(const Fp8Matmul& product) = 0;

  // Attention in blocks (Dao 2023), grouped queries: query head h reads key/value head h / (H / K).
  /// Prepares `spans`, which are read before the call returns, for any number of calls, forward and backward, over
  /// num_queries queries (T) and num_keys keys (Tk): once per micro-batch for all layers. The plan is for this
  /// backend alone and does not outlive it; it may be destroyed while queued calls still use it. It may lie in the
  /// workspace (AttentionNeeds says for how many there is room). The CUDA backend takes causal squares (q_len = k_len,
  /// diagonal 0) and full rectangles, with or without a window, as schedules have; other spans are a std::logic_error.
  [[nodiscard]] virtual std::unique_ptr<AttentionPlan> plan_attention(const std::vector<sequence::AttentionSpan>& spans,
                                                                      std::int64_t num_queries,
                                                                      std::int64_t num_keys) = 0;
  /// Such plans will be made: what takes the host long for a library of attention is then done for all of them, by
  /// several threads, at the first call of attention. No more than a hint.
  virtual void expect_attention(const std::vector<sequence::AttentionSpan>& /*spans*/, std::int64_t /*num_queries*/,
                                std::int64_t /*num_keys*/) {}
  /// Whether calls of attention with plans that are made from now on may be repeated with other plans in their places
  /// (make_repeated_backend). Then plans may be larger and calls cost a little more, so that many have the same
  /// launch_words(); the workspace has room for them (AttentionNeeds::repeats). At first not.
  virtual void set_attention_repeats(bool /*repeats*/) {}
  /// Softmax attention of the queries over the keys that the plan's spans let them see.
  virtual void attention_forward(const AttentionForward& attention) = 0;
  /// delta (T, H) float32 = sum over D of out * dout; out, dout (T, H, D) compute dtype, strided.
  virtual void attention_delta(Tensor delta, ConstTensor out, ConstTensor dout) = 0;
  /// Gradients of the attention over the plan's spans; probabilities are formed again from the final lse, over the keys
  /// of all calls of the forward pass.
  virtual void attention_backward(const AttentionBackward& attention) = 0;
  /// dsinks += the gradient of the sinks, -sum over T of exp(sink - lse) delta; queries with a log-sum-exp of -inf have
  /// none.
  virtual void attention_sinks_backward(const AttentionSinksBackward& attention) = 0;

  /// How many of these calls were not this program's own kernels; none on CPUs.
  [[nodiscard]] virtual LibraryCalls library_calls() const { return {}; }

  // SwiGLU (Shazeer 2020): act = silu(gate) * up; gate_up, dgate_up (T, 2F) hold gate, then up, in every row. act, dact
  // (T, F). All have the compute dtype.
  virtual void swiglu_forward(Tensor act, ConstTensor gate_up) = 0;
  /// dgate_up may be gate_up. act is recomputed on the way; it may be dact.
  virtual void swiglu_backward(Tensor dgate_up, Tensor act, ConstTensor dact, ConstTensor gate_up) = 0;

  // Mixtures of experts; see experts.hpp.
  virtual void router_forward(const RouterForward& router) = 0;
  virtual void router_backward(const RouterBackward& router) = 0;
  virtual void router_sums(const RouterSums& sums) = 0;
  virtual void router_sums_backward(const RouterSumsBackward& sums) = 0;
  virtual void expert_order(const ExpertOrder& order) = 0;
  virtual void gather_tokens(const GatherTokens& gather) = 0;
  virtual void combine_rows(const CombineRows& combine) = 0;
  virtual void combine_weights_backward(const CombineWeightsBackward& combine) = 0;
  virtual void grouped_matmul(const GroupedMatmul& grouped) = 0;
  virtual void grouped_weight_gradient(const GroupedWeightGradient& grouped) = 0;
  virtual void grouped_bias_gradient(const GroupedBiasGradient& grouped) = 0;
  virtual void gated_forward(const GatedForward& gated) = 0;
  virtual void gated_backward(const GatedBackward& gated) = 0;

  /// x = cap tanh(x / cap): float32, contiguous (Gemma 2). cap > 0.
  virtual void soft_cap(Tensor x, float cap) = 0;

  // Cross-entropy in three steps; the caller reduces max (by maximum), then partials (by sum), over tp between them.
  /// Reads logits; writes max: of this rank's columns.
  virtual void cross_entropy_max(const CrossEntropy& chunk) = 0;
  /// Reads logits, max (reduced), targets and vocab_begin; writes partials, of this rank's columns, and overwrites
  /// logits with exp(logit - max).
  virtual void cross_entropy_partials(const CrossEntropy& chunk) = 0;
  /// dlogits (T, V), compute dtype = gradient_scale * weight * the gradient of the token's loss, softmax - onehot for
  /// the plain one, the product of the first two formed in double: the one may exceed what float32 holds where the
  /// other is tiny. Empty: not wanted. dlogits may be logits when float32. metrics, float64 (4), += sum w loss; sum
  /// over w > 0 of 1, of (the target has the largest logit), of the entropy of the prediction, in nats. Only tokens
  /// with w > 0 count. Reads all of chunk, with max and partials reduced; writes none of it but logits, where dlogits
  /// are these.
  virtual void cross_entropy_finish(const CrossEntropy& chunk, Tensor dlogits, double gradient_scale,
                                    Tensor metrics) = 0;

  virtual void update(const Update& step) = 0;
  virtual void update_blockwise(const BlockwiseUpdate& step) = 0;
  /// new_scales = the larger of itself and what the update makes of the moments of these elements, block by block; the
  /// update's parameters and copy are not touched and may be empty, and codes and scales are only read.
  virtual void raise_scales(const BlockwiseUpdate& step) = 0;

  // Adafactor; see factored_moment.hpp.
  virtual void sum_squares_by_dim(const SquareSums& sums) = 0;
  virtual void update_factors(const MomentFactors& step) = 0;
  /// squares += u^2 of these elements; parameters and copy are not touched.
  virtual void add_direction_squares(const FactoredUpdate& step) = 0;
  virtual void update_factored(const FactoredUpdate& step) = 0;
};

}  // namespace sft::ops
