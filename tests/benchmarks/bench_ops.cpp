// SPDX-License-Identifier: Apache-2.0
// bench_ops: time of every op at the shapes of a 40M Llama step, as a share of what this machine can do.
//
//   OMP_NUM_THREADS=2 build/release/bin/bench_ops [repetitions, default 5]
//
// Memory-bound ops are held against the bandwidth of a streaming copy, products against oneDNN's own at 2048^3 in the
// same dtype, both measured in the same run. The best of all repetitions counts; the last column is the time that one
// training step of the model spends in the op.

#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "sft/device/arena.hpp"
#include "sft/device/factory.hpp"
#include "sft/ops/factory.hpp"
#include "support/dtype_name.hpp"

namespace sft {
namespace {

// T tokens, C hidden size, H query heads, K key/value heads, D head dim, F MLP columns, V vocabulary, L layers.
constexpr std::int64_t T = 2048, C = 512, H = 8, K = 4, D = 64, F = 1408, V = 32000, L = 8, num_rows = 4;
constexpr std::int64_t head_rows = 512;  ///< tokens of one chunk of the loss
constexpr std::int64_t num_parameters = V * C + L * (C * ((H + 2 * K) * D + H * D + 3 * F) + 2 * C) + C;
constexpr std::int64_t copy_elements = std::int64_t{1} << 25;

class Bench {
 public:
  explicit Bench(int repetitions)
      : repetitions_(repetitions),
        device_(device::make_device(device::Kind::cpu, 0, 1)),
        stream_(device_->make_stream()),
        ops_(ops::make_backend(*device_, *stream_)),
        memory_(*device_, ledger_, device::Label::activations, std::size_t{3} << 30) {
    const ops::Shapes shapes{
        .tokens = T, .hidden = C, .q_heads = H, .kv_heads = K, .head_dim = D, .mlp = F, .vocab = V};
    const std::size_t workspace_bytes =
        ops::workspace_bytes(device::Kind::cpu, omp_get_max_threads(), shapes,
                             {.num_keys = T, .longest_lane = T, .num_kv_heads = K, .head_dim = D});
    ops_->set_workspace(take(memory_, DType::float32, {static_cast<std::int64_t>(workspace_bytes / sizeof(float))}));
    std::printf("%s, %s, %d threads, best of %d\n", device_->description().c_str(), ops::cpu_instruction_set(),
                omp_get_max_threads(), repetitions_);
  }

  void run(DType dtype);

 private:
  Tensor make(DType dtype, std::initializer_list<std::int64_t> shape, float stddev = 1.0f) {
    const Tensor x = take(memory_, dtype, shape);
    if (dtype == DType::int32) {
      for (std::int64_t i = 0; i < x.num_elements(); ++i) x.as<std::int32_t>()[i] = static_cast<int>(i * 7919 % V);
    } else if (dtype == DType::float32) {
      ops_->fill_normal(x, 1, 0, stddev);
    } else if (dtype == DType::bf16) {
      ops_->fill(x, 0.01f);
    }
    return x;
  }

  double best_s(const std::function<void()>& op) const {
    op();
    double best = 1e30;
    for (int i = 0; i < repetitions_; ++i) {
      const auto begin = std::chrono::steady_clock::now();
      op();
      best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    }
    return best;
  }

  /// `work` in bytes or FLOPs, `roof` in the same a second.
  void report(const std::string& name, const char* unit, double work, double roof, int calls_per_step,
              const std::function<void()>& op) {
    const double seconds = best_s(op);
    step_s_ += seconds * calls_per_step;
    std::printf("%-28s %9.3f ms %9.1f %s %6.2f of the roof %9.1f ms a step\n", name.c_str(), seconds * 1e3,
                work / seconds * 1e-9, unit, work / seconds / roof, seconds * calls_per_step * 1e3);
    std::fflush(stdout);
  }
  void memory(const std::string& name, double bytes, int calls_per_step, const std::function<void()>& op) {
    report(name, "GB/s", bytes, bytes_per_s_, calls_per_step, op);
  }
  void product(const std::string& name, double flops, int calls_per_step, const std::function<void()>& op) {
    report(name, "GF/s", flops, flops_per_s_, calls_per_step, op);
  }

  void measure_roofs(DType dtype);
  void products(DType dtype);
  void elementary();
  void row_ops(DType dtype);
  void attention(DType dtype, const std::string& name, std::int64_t document_length, int calls_per_step);
  void loss(DType dtype);

  int repetitions_;
  device::Ledger ledger_;
  std::unique_ptr<device::Device> device_;
  std::unique_ptr<device::Stream> stream_;
  std::unique_ptr<ops::Backend> ops_;
  device::Arena memory_;
  double bytes_per_s_ = 0.0, flops_per_s_ = 0.0, step_s_ = 0.0;
};

void Bench::measure_roofs(DType dtype) {
  const Tensor a = make(DType::float32, {copy_elements}), b = make(DType::float32, {copy_elements});
  bytes_per_s_ = 2.0 * static_cast<double>(a.size_bytes()) / best_s([&] { ops_->copy(b, a); });
  constexpr std::int64_t size = 2048;
  const Tensor x = make(dtype, {size, size}), y = make(dtype, {size, size}), z = make(dtype, {size, size});
  flops_per_s_ = 2.0 * size * size * size / best_s([&] { ops_->matmul({x, y, z}); });
  std::printf("\n%s: streaming copy %.1f GB/s, product at 2048^3 %.1f GF/s\n", name_of(dtype), bytes_per_s_ * 1e-9,
              flops_per_s_ * 1e-9);
}

/// Forward, input gradient and weight gradient of every linear layer.
void Bench::products(DType dtype) {
  struct Layer {
    const char* name;
    std::int64_t tokens, rows, columns;
    int calls;
    DType out;
  };
  const Layer layers[] = {{"qkv", T, (H + 2 * K) * D, C, L, dtype},
                          {"o", T, C, H * D, L, dtype},
                          {"gate_up", T, 2 * F, C, L, dtype},
                          {"down", T, C, F, L, dtype},
                          {"head", head_rows, V, C, T / head_rows, DType::float32}};
  for (const auto& [name, tokens, rows, columns, calls, out_dtype] : layers) {
    const std::size_t mark = memory_.used_bytes();
    const double flops = 2.0 * static_cast<double>(tokens * rows * columns);
    const Tensor weight = make(dtype, {rows, columns}), x = make(dtype, {tokens, columns});
    const Tensor out = make(out_dtype, {tokens, rows}), dout = make(dtype, {tokens, rows});
    const Tensor dx = make(dtype, {tokens, columns}), dweight = make(DType::float32, {rows, columns});
    const std::string label = std::string("matmul ") + name;
    product(label, flops, calls, [&] { ops_->matmul({.a = x, .b = weight, .c = out, .transpose_b = true}); });
    product(label + " input gradient", flops, calls, [&] { ops_->matmul({.a = dout, .b = weight, .c = dx}); });
    product(label + " weight gradient", flops, calls,
            [&] { ops_->matmul({.a = dout, .b = x, .c = dweight, .transpose_a = true, .accumulate = true}); });
    memory_.rewind(mark);
  }
}

void Bench::row_ops(DType dtype) {
  const double element = static_cast<double>(size_of(dtype)), width = static_cast<double>(T * C);
  const Tensor x = make(dtype, {T, C}), y = make(dtype, {T, C}), delta = make(dtype, {T, C}),
               rstd = make(DType::float32, {T});
  const Tensor weight = make(dtype, {C}), dweight = make(DType::float32, {C});
  memory("add_rms_norm_forward", 4 * element * width, 2 * L,
         [&] { ops_->add_rms_norm_forward(x, y, rstd, x, delta, weight, 1e-5f); });
  memory("rms_norm_apply", 2 * element * width, 0, [&] { ops_->rms_norm_apply(y, x, rstd, weight); });
  memory("rms_norm_backward", 4 * element * width, 2 * L,
         [&] { ops_->rms_norm_backward(delta, dweight, y, x, rstd, weight, delta); });

  const Tensor tokens = make(DType::int32, {T}), table = make(dtype, {V, C}), dtable = make(DType::float32, {V, C});
  memory("embedding_forward", 2 * element * width, 1, [&] { ops_->embedding_forward(x, tokens, table, 0); });
  memory("embedding_backward", (8 + element) * width, 1, [&] { ops_->embedding_backward(dtable, tokens, x, 0); });

  const Tensor frequencies = make(DType::float64, {D / 2}), cosine = make(DType::float32, {T, D / 2});
  const Tensor sine = make(DType::float32, {T, D / 2}), qkv = make(dtype, {T, (H + 2 * K) * D});
  const Tensor heads = qkv.columns(0, (H + K) * D).view({T, H + K, D});
  const Tensor dheads = make(dtype, {T, (H + 2 * K) * D}).columns(0, (H + K) * D).view({T, H + K, D});
  const Tensor norm_rstd = make(DType::float32, {T, H + K}), norm_weight = make(dtype, {D}),
               dnorm = make(DType::float32, {D});
  const double heads_width = static_cast<double>(T * (H + K) * D);
  for (std::int64_t j = 0; j < D / 2; ++j) frequencies.as<double>()[j] = 1.0 / static_cast<double>(1 + j);
  memory("rope_table", 4.0 * static_cast<double>(T * D), 1,
         [&] { ops_->rope_table(cosine, sine, tokens, frequencies, 1.0F); });
  memory("rope_forward", 2 * element * heads_width, L, [&] { ops_->rope_forward(heads, heads, cosine, sine); });
  memory("rope_backward", 2 * element * heads_width, L, [&] { ops_->rope_backward(dheads, dheads, cosine, sine); });
  memory("norm_rope_forward", 2 * element * heads_width, 0,
         [&] { ops_->norm_rope_forward(heads, norm_rstd, heads, norm_weight, cosine, sine, 1e-6f); });
  memory("norm_rope_backward", 3 * element * heads_width, 0,
         [&] { ops_->norm_rope_backward(dheads, dnorm, dheads, heads, norm_rstd, norm_weight, cosine, sine); });

  const Tensor gate_up = make(dtype, {T, 2 * F}), dgate_up = make(dtype, {T, 2 * F}), act = make(dtype, {T, F});
  const Tensor dact = make(dtype, {T, F});
  memory("swiglu_forward", 3 * element * static_cast<double>(T * F), L, [&] { ops_->swiglu_forward(act, gate_up); });
  memory("swiglu_backward", 6 * element * static_cast<double>(T * F), L,
         [&] { ops_->swiglu_backward(dgate_up, act, dact, gate_up); });
  const Tensor dbias = make(DType::float32, {(H + 2 * K) * D});
  memory("bias_backward", element * static_cast<double>(qkv.num_elements()), 0,
         [&] { ops_->bias_backward(dbias, qkv); });
}

/// FLOPs of the causal half alone: 4 D a visible pair forward, 10 D backward.
void Bench::attention(DType dtype, const std::string& name, std::int64_t document_length, int calls_per_step) {
  const Tensor qkv = make(dtype, {T, (H + 2 * K) * D}), dqkv = make(dtype, {T, (H + 2 * K) * D});
  const Tensor lse = make(DType::float32, {T, H}), delta = make(DType::float32, {T, H}), dout = make(dtype, {T, H, D});
  const Tensor out = make(dtype, {T, H, D});
  const auto heads = [](const Tensor& x, std::int64_t first, std::int64_t count) {
    return x.columns(first * D, count * D).view({T, count, D});
  };
  const Tensor q = heads(qkv, 0, H), k = heads(qkv, H, K), v = heads(qkv, H + K, K);
  std::vector<sequence::AttentionSpan> spans;
  for (std::int64_t begin = 0; begin < T; begin += document_length) {
    spans.push_back({begin, document_length, begin, document_length, 0, begin * num_rows / T});
  }
  const auto plan = ops_->plan_attention(spans, T, T);
  const double pairs = 0.5 * static_cast<double>(T * H) * static_cast<double>(document_length + 1);
  product("attention_forward " + name, 4.0 * static_cast<double>(D) * pairs, calls_per_step, [&] {
    ops_->attention_forward({q, k, v, out, lse, 0.125f, *plan});
  });
  memory("attention_delta " + name, 2.0 * static_cast<double>(size_of(dtype) * T * H * D), calls_per_step,
         [&] { ops_->attention_delta(delta, out, dout); });
  product("attention_backward " + name, 10.0 * static_cast<double>(D) * pairs, calls_per_step, [&] {
    ops_->attention_backward(
        {q, k, v, dout, lse, delta, heads(dqkv, 0, H), heads(dqkv, H, K), heads(dqkv, H + K, K), 0.125f, *plan});
  });
}

void Bench::loss(DType dtype) {
  const Tensor logits = make(DType::float32, {head_rows, V}), max = make(DType::float32, {head_rows});
  const Tensor partials = make(DType::float32, {3, head_rows}), targets = make(DType::int32, {head_rows});
  const Tensor weights = make(DType::float32, {head_rows}), metrics = make(DType::float64, {4});
  const Tensor dlogits = dtype == DType::bf16 ? make(dtype, {head_rows, V}) : logits;
  ops_->fill(weights, 1.0f);
  const ops::CrossEntropy chunk{logits, max, partials, targets, weights, 0};
  const double size = static_cast<double>(logits.num_elements());
  const int calls = T / head_rows;
  memory("cross_entropy_max", 4 * size, calls, [&] { ops_->cross_entropy_max(chunk); });
  memory("cross_entropy_partials", 8 * size, calls, [&] { ops_->cross_entropy_partials(chunk); });
  memory("cross_entropy_finish", (4 + static_cast<double>(size_of(dtype))) * size, calls,
         [&] { ops_->cross_entropy_finish(chunk, dlogits, 1e-3f, metrics); });
}

void Bench::elementary() {
  const double size = static_cast<double>(num_parameters);
  const Tensor parameters = make(DType::float32, {num_parameters}), gradients = make(DType::float32, {num_parameters});
  const Tensor exp_avg = make(DType::float32, {num_parameters}), exp_avg_sq = make(DType::float32, {num_parameters});
  const Tensor copy = make(DType::bf16, {num_parameters}), sum = make(DType::float64, {1});
  ops_->fill(exp_avg_sq, 1.0f);
  const ops::AdamW step{1e-4, 0.9, 0.999, 1e-8, 0.1, 0.1, 0.001, 1.0};
  memory("adamw", 28 * size, 1, [&] { ops_->adamw(parameters, gradients, exp_avg, exp_avg_sq, {}, step); });
  memory("adamw with bf16 copy", 30 * size, 0,
         [&] { ops_->adamw(parameters, gradients, exp_avg, exp_avg_sq, copy, step); });
  memory("sum_squares", 4 * size, 1, [&] { ops_->sum_squares(sum, gradients); });
  memory("fill", 4 * size, 1, [&] { ops_->fill(gradients, 0.0f); });
  memory("add", 12 * size, 0, [&] { ops_->add(gradients, parameters); });
  memory("copy float32 to bf16", 6 * size, 0, [&] { ops_->copy(copy, parameters); });
  memory("copy bf16 to float32", 6 * size, 0, [&] { ops_->copy(parameters, copy); });
  memory("fill_normal", 4 * size, 0, [&] { ops_->fill_normal(parameters, 1, 0, 0.02f); });
}

void Bench::run(DType dtype) {
  step_s_ = 0.0;
  const auto part = [&](const auto& body) {
    const std::size_t mark = memory_.used_bytes();
    body();
    memory_.rewind(mark);
  };
  part([&] { measure_roofs(dtype); });
  part([&] { products(dtype); });
  part([&] { attention(dtype, "4 x 512", T / num_rows, L); });
  part([&] { attention(dtype, "128 x 16", 16, 0); });
  part([&] { row_ops(dtype); });
  part([&] { loss(dtype); });
  part([&] { elementary(); });
  const double tokens = static_cast<double>(T);
  const double model_flops = 6.0 * (static_cast<double>(V * C + L * C * ((H + 2 * K) * D + H * D + 3 * F)) * tokens +
                                    static_cast<double>(L * H * D * T * T / num_rows));
  std::printf("a step: %.0f ms in these ops, %.2f of the product at 2048^3\n", step_s_ * 1e3,
              model_flops / step_s_ / flops_per_s_);
}

}  // namespace
}  // namespace sft

int main(int argc, char** argv) {
  sft::Bench bench(argc > 1 ? std::atoi(argv[1]) : 5);
  bench.run(sft::DType::float32);
  bench.run(sft::DType::bf16);
  return 0;
}
