// SPDX-License-Identifier: Apache-2.0
// bench_ops: time of every op at the shapes of a training step, as a share of what this machine can do.
//
//   OMP_NUM_THREADS=2 build/release/bin/bench_ops
//   build/release/bin/bench_ops --backend cuda --model qwen3-8b --tokens 16384 --length 4096 --precision bf16
//
// Memory-bound ops are held against the bandwidth of a streaming copy. Products and attention are held against the
// library's own product in the same dtype, or, on a GPU in bf16, against the peak of its data sheet. Ops that compute
// more than they move and are no products have no roof. The best of all repetitions counts. The last column is the time
// that a micro-batch of the model spends in the op, recomputation included; `sum_s` is the sum of it over products and
// attention, over attention alone, over memory-bound ops, or over all, as --part says; `head_tokens` the rows of logits
// that the product `head` makes at a time.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "sft/config/values.hpp"
#include "sft/core/log.hpp"
#include "sft/ops/factory.hpp"
#include "sft/rank/machine.hpp"
#include "tools/benchmarks/op_bench.hpp"
#include "tools/benchmarks/op_bytes.hpp"
#include "tools/benchmarks/step_options.hpp"

namespace sft {
namespace {

namespace bytes_of = bench::bytes_of;

struct Options {
  std::string backend = "cpu", model = "small", precision = "both", part = "all", checkpointing = "none";
  std::string attention = "auto";
  std::int64_t layers = 0, tokens = 2048, length = 512, copy_mib = 0, product_size = 0;
  double peak_tflops = 0.0;
  int repetitions = 5;
};

/// False: help was asked for.
bool parse(int argc, char** argv, Options& options) {
  bench::CommandLine line("bench_ops");
  line.add("backend", options.backend, "cpu or cuda");
  line.add("model", options.model, bench::model_names);
  line.add("attention", options.attention, "on GPUs: auto, own, cudnn_forward or cudnn");
  line.add("layers", options.layers, "of the model; 0: its own");
  line.add("tokens", options.tokens, "of a micro-batch");
  line.add("length", options.length, "tokens of each of its documents");
  line.add("precision", options.precision, "fp32, bf16 or both");
  line.add("part", options.part,
           "memory: memory-bound ops; products: products and attention; attention: that alone; all: both");
  line.add("activation_checkpointing", options.checkpointing, "what is computed again: none, selective or full");
  line.add("copy_mib", options.copy_mib, "that the streaming copy reads; 0: 128 on a CPU, 1024 on a GPU");
  line.add("product_size", options.product_size, "of the product that is the roof; 0: 2048 on a CPU, 8192 on a GPU");
  line.add("peak_tflops", options.peak_tflops, "of a GPU in bf16; 0: what its data sheet says");
  line.add("repetitions", options.repetitions, "of every op");
  return line.parse(argc, argv);
}

ops::AttentionKernels kernels_of(const std::string& attention, const config::Model& model) {
  config::Device keys;
  config::read(attention, keys.attention);
  return rank::attention_kernels(keys, model);
}

bench::OpBenchOptions bench_options(const Options& options, const config::Model& model) {
  const bool is_cuda = options.backend == "cuda";
  return {.kind = is_cuda ? device::Kind::cuda : device::Kind::cpu,
          .repetitions = options.repetitions,
          .shapes = {.tokens = options.tokens,
                     .hidden = model.hidden_size,
                     .q_heads = model.num_attention_heads,
                     .kv_heads = model.num_key_value_heads,
                     .head_dim = model.head_dim,
                     .mlp = model.intermediate_size,
                     .vocab = model.vocab_size,
                     .compute = options.precision == "bf16" ? DType::bf16 : DType::float32},
          .copy_mib = options.copy_mib > 0 ? options.copy_mib
                      : is_cuda            ? 1024
                                           : 128,
          .product_size = options.product_size > 0 ? options.product_size
                          : is_cuda                ? 8192
                                                   : 2048,
          .peak_tflops = options.peak_tflops,
          .attention = kernels_of(options.attention, model)};
}

/// The ops of one model, in one dtype.
class ModelOps {
 public:
  ModelOps(const Options& options, const config::Model& model, bench::OpBench& bench, DType dtype)
      : model_(model), bench_(bench), ops_(bench.ops()), dtype_(dtype), T(options.tokens), length_(options.length) {
    L = options.layers > 0 ? options.layers : model.num_hidden_layers;
    config::ActivationCheckpointing checkpointing{};
    config::read(options.checkpointing, checkpointing);
    is_recomputed_ = checkpointing == config::ActivationCheckpointing::full;
    joins_again_ = checkpointing != config::ActivationCheckpointing::none;
    has_library_backward_ = ops::has_backward_of_library(kernels_of(options.attention, model));
    const ops::Shapes shapes = bench_options(options, model).shapes;
    head_rows = ops::loss_chunk_tokens(bench_options(options, model).kind, shapes);
    num_chunks_ = (T + head_rows - 1) / head_rows;
  }

  void products();
  /// FLOPs of the causal half alone: 4 D a visible pair forward, 10 D backward.
  void attention(const std::string& name, std::int64_t document_length, bool is_counted);
  void memory_bound();
  /// The one memory-bound op of attention, which attention() has too.
  void attention_delta();

 private:
  void measure_delta(const std::string& name, const Tensor& delta, const Tensor& out, const Tensor& dout,
                     std::int64_t calls);
  void norms_and_embedding();
  void rotations();
  void mlp();
  void loss();
  void elementary();
  void adafactor(const Tensor& parameters, const Tensor& gradients);

  Tensor make(DType dtype, std::initializer_list<std::int64_t> shape) { return bench_.make(dtype, shape); }

  const config::Model& model_;
  bench::OpBench& bench_;
  ops::Backend& ops_;
  const DType dtype_;
  // T tokens, C hidden size, H query heads, K key/value heads, D head dim, F MLP columns, V vocabulary, L layers;
  // s bytes of an element.
  const std::int64_t T, C = model_.hidden_size, H = model_.num_attention_heads, K = model_.num_key_value_heads,
                        D = model_.head_dim, F = model_.intermediate_size, V = model_.vocab_size;
  const std::int64_t length_;
  std::int64_t L = 0, head_rows = 0, num_chunks_ = 0;
  bool has_library_backward_ = false;                 ///< of attention
  bool is_recomputed_ = false, joins_again_ = false;  ///< all of a block but its last product; its output product
  const std::int64_t s = static_cast<std::int64_t>(size_of(dtype_));
};

/// Forward, input gradient and weight gradient of every linear layer.
void ModelOps::products() {
  struct Layer {
    const char* name;
    std::int64_t tokens, rows, columns, calls, again;
    DType out;
  };
  // The last block's activations are still there when its backward pass begins, but gate and up.
  const Layer layers[] = {{"qkv", T, (H + 2 * K) * D, C, L, is_recomputed_ ? L - 1 : 0, dtype_},
                          {"o", T, C, H * D, L, joins_again_ ? L - 1 : 0, dtype_},
                          {"gate_up", T, 2 * F, C, L, is_recomputed_ ? L : 0, dtype_},
                          {"down", T, C, F, L, 0, dtype_},
                          {"head", std::min(T, head_rows), V, C, num_chunks_, 0, DType::float32}};
  std::printf("head_tokens %lld\n", static_cast<long long>(std::min(T, head_rows)));
  for (const Layer& l : layers) {
    bench_.part([&] {
      const std::string name = std::string("matmul ") + l.name;
      const double flops = 2.0 * static_cast<double>(l.tokens * l.rows) * static_cast<double>(l.columns);
      const Tensor weight = make(dtype_, {l.rows, l.columns}), x = make(dtype_, {l.tokens, l.columns});
      const Tensor out = make(l.out, {l.tokens, l.rows}), dout = make(dtype_, {l.tokens, l.rows});
      const Tensor dx = make(dtype_, {l.tokens, l.columns}), dweight = make(DType::float32, {l.rows, l.columns});
      bench_.product_bound(name, flops, l.calls + l.again,
                           [&] { ops_.run(ops::Matmul{.a = x, .b = weight, .c = out, .transpose_b = true}); });
      bench_.product_bound(name + " input gradient", flops, l.calls,
                           [&] { ops_.run(ops::Matmul{.a = dout, .b = weight, .c = dx}); });
      bench_.product_bound(name + " weight gradient", flops, l.calls, [&] {
        ops_.run(ops::Matmul{.a = dout, .b = x, .c = dweight, .transpose_a = true, .accumulate = true});
      });
    });
  }
}

void ModelOps::attention(const std::string& name, std::int64_t document_length, bool is_counted) {
  bench_.part([&] {
    const Tensor qkv = make(dtype_, {T, (H + 2 * K) * D}), dqkv = make(dtype_, {T, (H + 2 * K) * D});
    const Tensor lse = make(DType::float32, {T, H}), delta = make(DType::float32, {T, H});
    const Tensor dout = make(dtype_, {T, H, D}), out = make(dtype_, {T, H, D});
    const auto heads = [&](const Tensor& x, std::int64_t first, std::int64_t count) {
      return x.columns(first * D, count * D).view({T, count, D});
    };
    const Tensor q = heads(qkv, 0, H), k = heads(qkv, H, K), v = heads(qkv, H + K, K);
    std::vector<sequence::AttentionSpan> spans;
    double pairs = 0.0;
    for (std::int64_t begin = 0; begin < T; begin += document_length) {
      const std::int64_t n = std::min(document_length, T - begin);
      spans.push_back({begin, n, begin, n, 0, static_cast<std::int32_t>(begin / document_length)});
      pairs += 0.5 * static_cast<double>(H) * static_cast<double>(n) * static_cast<double>(n + 1);
    }
    const auto plan = bench_.plan(spans, T);
    const double size = static_cast<double>(D);
    const std::int64_t calls = is_counted ? L : 0;
    bench_.product_bound("attention_forward " + name, 4.0 * size * pairs,
                         is_recomputed_ && is_counted ? 2 * L - 1 : calls, [&] {
                           ops_.run(ops::AttentionForward{q, k, v, out, lse, 0.125f, *plan});
                         });
    measure_delta("attention_delta " + name, delta, out, dout, calls);
    bench_.product_bound("attention_backward " + name, 10.0 * size * pairs, calls, [&] {
      ops_.run(ops::AttentionBackward{.q = q,
                                      .k = k,
                                      .v = v,
                                      .dout = dout,
                                      .lse = lse,
                                      .delta = delta,
                                      .dq = heads(dqkv, 0, H),
                                      .dk = heads(dqkv, H, K),
                                      .dv = heads(dqkv, H + K, K),
                                      .scale = 0.125f,
                                      .plan = *plan,
                                      .out = has_library_backward_ ? out : Tensor()});
    });
  });
}

void ModelOps::measure_delta(const std::string& name, const Tensor& delta, const Tensor& out, const Tensor& dout,
                             std::int64_t calls) {
  bench_.memory_bound(name, bytes_of::attention_delta(s, T, H, D), calls, [&] {
    ops_.run(ops::AttentionDelta{delta, out, dout});
  });
}

void ModelOps::norms_and_embedding() {
  const Tensor x = make(dtype_, {T, C}), y = make(dtype_, {T, C}), delta = make(dtype_, {T, C});
  const Tensor rstd = make(DType::float32, {T}), weight = make(dtype_, {C}), dweight = make(DType::float32, {C});
  bench_.memory_bound("add_rms_norm_forward", bytes_of::add_rms_norm_forward(s, s, s, T, C), 2 * L, [&] {
    ops_.run(ops::AddRmsNormForward{
        .sum = x, .y = y, .rstd = rstd, .x = x, .delta = delta, .weight = weight, .epsilon = 1e-5f});
  });
  bench_.memory_bound("rms_norm_apply", bytes_of::rms_norm_apply(s, s, T, C), 2 * L,
                      [&] { ops_.run(ops::RmsNormApply{.y = y, .x = x, .rstd = rstd, .weight = weight}); });
  bench_.memory_bound("rms_norm_backward", bytes_of::rms_norm_backward(s, s, s, T, C), 2 * L, [&] {
    ops_.run(ops::RmsNormBackward{
        .dx = delta, .dweight = dweight, .dy = y, .x = x, .rstd = rstd, .weight = weight, .dresidual = delta});
  });
  const Tensor tokens = make(DType::int32, {T}), table = make(dtype_, {V, C}), dtable = make(DType::float32, {V, C});
  bench_.memory_bound("embedding_forward", bytes_of::embedding_forward(s, s, T, C), 1, [&] {
    ops_.run(ops::EmbeddingForward{x, tokens, table, 0});
  });
  bench_.memory_bound("embedding_backward", bytes_of::embedding_backward(s, T, C), 1, [&] {
    ops_.run(ops::EmbeddingBackward{dtable, tokens, x, 0});
  });
}

void ModelOps::rotations() {
  const Tensor tokens = make(DType::int32, {T}), frequencies = make(DType::float64, {D / 2});
  const Tensor cosine = make(DType::float32, {T, D / 2}), sine = make(DType::float32, {T, D / 2});
  const Tensor qkv = make(dtype_, {T, (H + 2 * K) * D}), dqkv = make(dtype_, {T, (H + 2 * K) * D});
  const auto rotated = [&](const Tensor& x) { return x.columns(0, (H + K) * D).view({T, H + K, D}); };
  const Tensor heads = rotated(qkv), dheads = rotated(dqkv), norm_rstd = make(DType::float32, {T, H + K});
  const Tensor norm_weight = make(dtype_, {D}), dnorm = make(DType::float32, {D});
  const Tensor dbias = make(DType::float32, {(H + 2 * K) * D});
  const std::int64_t plain = model_.qk_norm ? 0 : L, normed = model_.qk_norm ? L : 0;
  bench_.without_roof("rope_table", bytes_of::rope_table(T, D), 1, [&] {
    ops_.run(ops::WriteRopeTable{cosine, sine, tokens, frequencies, {}});
  });
  bench_.memory_bound("rope_forward", bytes_of::rope(s, T, H + K, D), plain, [&] {
    ops_.run(ops::RopeForward{heads, heads, {cosine, sine}});
  });
  bench_.memory_bound("rope_backward", bytes_of::rope(s, T, H + K, D), plain, [&] {
    ops_.run(ops::RopeBackward{dheads, dheads, {cosine, sine}});
  });
  bench_.memory_bound("norm_rope_forward", bytes_of::norm_rope_forward(s, s, T, H + K, D), normed, [&] {
    ops_.run(ops::NormRopeForward{.out = heads,
                                  .rstd = norm_rstd,
                                  .in = heads,
                                  .weight = norm_weight,
                                  .table = {cosine, sine},
                                  .epsilon = 1e-6f});
  });
  bench_.memory_bound("norm_rope_backward", bytes_of::norm_rope_backward(s, s, T, H + K, D), normed, [&] {
    ops_.run(ops::NormRopeBackward{.din = dheads,
                                   .dweight = dnorm,
                                   .dout = dheads,
                                   .in = heads,
                                   .rstd = norm_rstd,
                                   .weight = norm_weight,
                                   .table = {cosine, sine}});
  });
  bench_.memory_bound("bias_backward", bytes_of::bias_backward(s, T, (H + 2 * K) * D), model_.attention_bias ? L : 0,
                      [&] {
                        ops_.run(ops::BiasBackward{dbias, qkv});
                      });
}

void ModelOps::mlp() {
  const Tensor gate_up = make(dtype_, {T, 2 * F}), dgate_up = make(dtype_, {T, 2 * F});
  const Tensor act = make(dtype_, {T, F}), dact = make(dtype_, {T, F});
  bench_.memory_bound("gated_forward", bytes_of::gated_forward(s, T, F), L, [&] {
    ops_.run(ops::GatedForward{act, gate_up});
  });
  bench_.memory_bound("gated_backward", bytes_of::gated_backward(s, T, F), L, [&] {
    ops_.run(ops::GatedBackward{dgate_up, act, dact, gate_up});
  });
}

void ModelOps::loss() {
  const std::int64_t n = std::min(T, head_rows);
  const Tensor logits = make(DType::float32, {n, V}), max = make(DType::float32, {n});
  const Tensor partials = make(DType::float32, {3, n}), targets = make(DType::int32, {n});
  const Tensor weights = bench_.make_filled(DType::float32, {n}, 1.0F), metrics = make(DType::float64, {4});
  const Tensor dlogits = dtype_ == DType::bf16 ? make(dtype_, {n, V}) : logits;
  const ops::CrossEntropy chunk{logits, max, partials, targets, weights, 0};
  bench_.memory_bound("cross_entropy_max", bytes_of::cross_entropy_max(n, V), num_chunks_,
                      [&] { ops_.run(ops::CrossEntropyMax{chunk}); });
  bench_.memory_bound("cross_entropy_partials", bytes_of::cross_entropy_partials(n, V), num_chunks_,
                      [&] { ops_.run(ops::CrossEntropyPartials{chunk}); });
  bench_.memory_bound("cross_entropy_finish", bytes_of::cross_entropy_finish(s, n, V), num_chunks_, [&] {
    ops_.run(ops::CrossEntropyFinish{chunk, dlogits, 1e-3f, metrics});
  });
}

/// All of a step of a matrix of the width of the model, as much as `parameters` holds of it.
void ModelOps::adafactor(const Tensor& parameters, const Tensor& gradients) {
  const std::int64_t rows = std::min(parameters.num_elements() / C, C), num = rows * C;
  const Tensor sums = make(DType::float64, {rows + C}), squares = make(DType::float64, {1});
  const Tensor moments = bench_.make_filled(DType::float32, {rows + C}, 1.0F),
               factors = make(DType::float32, {rows + C});
  const auto part = [&](const Tensor& x, bool of_columns) { return of_columns ? x.rows(rows, C) : x.rows(0, rows); };
  const ops::FactoredUpdate step{.parameters = parameters.rows(0, num).view({rows, C}),
                                 .gradients = gradients.rows(0, num).view({rows, C}),
                                 .row_factors = part(factors, false),
                                 .column_factors = part(factors, true),
                                 .squares = squares,
                                 .copy = {},
                                 .learning_rate = 1e-4,
                                 .weight_decay = 0.1,
                                 .clip_threshold = 1.0,
                                 .num_elements = num};
  bench_.memory_bound("adafactor", bytes_of::adafactor(num), 0, [&] {
    ops_.run(ops::SumSquaresByDim{step.gradients, 1.0, part(sums, false), part(sums, true)});
    for (const bool of_columns : {false, true}) {
      ops_.run(ops::MomentFactors{part(moments, of_columns), part(sums, of_columns), part(factors, of_columns),
                                  of_columns ? rows : C, 0.5, 1e-30, !of_columns});
    }
    ops_.run(ops::AddDirectionSquares{step});
    ops_.run(ops::UpdateFactored{step});
  });
}

/// Over the parameters of a block and the embedding, or of so many as 4 GiB hold.
void ModelOps::elementary() {
  const std::int64_t block = C * ((H + 2 * K) * D + H * D + 3 * F) + 2 * C;
  const std::int64_t all = L * block + (model_.tie_word_embeddings ? 1 : 2) * model_.vocab_size * C;
  const std::int64_t num = std::min(all, std::int64_t{1} << 28);
  const std::int64_t calls = (all + num - 1) / num;
  const Tensor parameters = make(DType::float32, {num}), gradients = make(DType::float32, {num});
  const Tensor exp_avg = make(DType::float32, {num});
  const Tensor exp_avg_sq = bench_.make_filled(DType::float32, {num}, 1.0F);
  const Tensor copy = make(DType::bf16, {num}), sum = make(DType::float64, {1});
  const auto step = [&](const Tensor& with_copy) {
    ops_.run(ops::Update{.parameters = parameters,
                         .gradients = gradients,
                         .state = {exp_avg, exp_avg_sq},
                         .copy = with_copy,
                         .rule = ops::AdamW{1e-4, 0.9, 0.999, 1e-8, 0.1, 0.1, 0.001}});
  };
  const bool is_bf16 = dtype_ == DType::bf16;
  bench_.memory_bound("adamw", bytes_of::adamw(4, 4, 0, num), is_bf16 ? 0 : calls, [&] { step({}); });
  bench_.memory_bound("adamw with bf16 copy", bytes_of::adamw(4, 4, 2, num), is_bf16 ? calls : 0, [&] { step(copy); });
  // Codes and scales lie where moments would; what they are makes no difference to time.
  const std::int64_t num_blocks = (num + ops::block_elements - 1) / ops::block_elements;
  const Tensor codes(exp_avg.data, DType::uint8, {2 * num});
  bench_.memory_bound("adamw_8bit", bytes_of::adamw_8bit(num), 0, [&] {
    ops_.run(
        ops::UpdateBlockwise{{.update = {.parameters = parameters,
                                         .gradients = gradients,
                                         .state = {codes.rows(0, num), codes.rows(num, num)},
                                         .copy = {},
                                         .rule = ops::AdamW{1e-4, 0.9, 0.999, 1e-8, 0.1, 0.1, 0.001}},
                              .scales = {exp_avg_sq.rows(0, num_blocks), exp_avg_sq.rows(num_blocks, num_blocks)}}});
  });
  adafactor(parameters, gradients);
  bench_.memory_bound("sum_squares", bytes_of::sum_squares(num), calls, [&] {
    ops_.run(ops::SumSquares{sum, gradients});
  });
  bench_.memory_bound("fill", bytes_of::fill(4, num), calls, [&] { ops_.run(ops::Fill{gradients, 0.0f}); });
  bench_.memory_bound("add", bytes_of::add(num), 0, [&] { ops_.run(ops::Add{gradients, parameters}); });
  bench_.memory_bound("copy float32 to bf16", bytes_of::copy(2, 4, num), 0, [&] {
    ops_.run(ops::Copy{copy, parameters});
  });
  bench_.memory_bound("copy bf16 to float32", bytes_of::copy(4, 2, num), 0, [&] {
    ops_.run(ops::Copy{parameters, copy});
  });
  bench_.without_roof("fill_normal", bytes_of::fill(4, num), 0, [&] {
    ops_.run(ops::FillNormal{parameters, 1, 0, 0.02f});
  });
}

void ModelOps::memory_bound() {
  bench_.part([&] { norms_and_embedding(); });
  bench_.part([&] { rotations(); });
  bench_.part([&] { mlp(); });
  bench_.part([&] { loss(); });
  bench_.part([&] { elementary(); });
}

void ModelOps::attention_delta() {
  bench_.part([&] {
    const Tensor delta = make(DType::float32, {T, H}), out = make(dtype_, {T, H, D}), dout = make(dtype_, {T, H, D});
    measure_delta("attention_delta", delta, out, dout, L);
  });
}

void run(const Options& options) {
  const config::Model model = bench::model_by_name(options.model);
  bench::OpBench bench(bench_options(options, model));
  std::vector<DType> dtypes;
  if (options.precision != "bf16") dtypes.push_back(DType::float32);
  if (options.precision != "fp32") dtypes.push_back(DType::bf16);
  for (const DType dtype : dtypes) {
    bench.measure_roofs(dtype);
    ModelOps model_ops(options, model, bench, dtype);
    if (options.part != "memory") {
      if (options.part != "attention") model_ops.products();
      model_ops.attention(std::to_string(options.tokens / options.length) + " x " + std::to_string(options.length),
                          options.length, true);
    }
    if (options.part == "memory" || options.part == "all") model_ops.memory_bound();
    if (options.part == "memory") model_ops.attention_delta();
    if (options.part == "all") model_ops.attention("of 16", 16, false);
    std::printf("sum_s %.6f\n", bench.take_total_s());
  }
}

}  // namespace
}  // namespace sft

int main(int argc, char** argv) {
  try {
    sft::Options options;
    if (sft::parse(argc, argv, options)) sft::run(options);
  } catch (const std::exception& error) {
    sft::log_error(error.what());
    return 1;
  }
  return 0;
}
