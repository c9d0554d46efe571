// SPDX-License-Identifier: Apache-2.0
// bench_loss_chunk: time of the loss head a token, over the number of tokens whose logits it holds at a time.
//
//   OMP_NUM_THREADS=2 build/release/bin/bench_loss_chunk [vocabulary, default 151936] [hidden, default 896]
//
// The three products of the head and the cross-entropy between them, for 1024 tokens in chunks of 64 to 1024; the best
// of three. ops::loss_chunk_tokens takes its least number of tokens from here.

#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "sft/core/dtype.hpp"
#include "sft/core/format.hpp"
#include "sft/device/arena.hpp"
#include "sft/device/factory.hpp"
#include "sft/machine/node.hpp"
#include "sft/ops/factory.hpp"

namespace sft {
namespace {

constexpr std::int64_t num_tokens = 1024;

class Bench {
 public:
  Bench(std::int64_t vocab, std::int64_t hidden)
      : vocab_(vocab),
        hidden_(hidden),
        device_(device::make_device(device::Kind::cpu)),
        stream_(device_->make_stream()),
        ops_(ops::make_backend(*device_, *stream_)) {}

  void run(DType dtype);

 private:
  struct Buffers {
    Tensor x, weight, dx, dweight, logits, dlogits, max, partials, targets, loss_weights, metrics, workspace;
  };
  [[nodiscard]] Buffers take_buffers(device::Arena& arena, DType dtype, std::int64_t chunk_tokens) const;
  /// The head, forward and backward, of all tokens.
  void pass(const Buffers& b, std::int64_t chunk_tokens);

  std::int64_t vocab_, hidden_;
  device::Ledger ledger_;
  std::unique_ptr<device::Device> device_;
  std::unique_ptr<device::Stream> stream_;
  std::unique_ptr<ops::Backend> ops_;
};

Bench::Buffers Bench::take_buffers(device::Arena& arena, DType dtype, std::int64_t chunk_tokens) const {
  Buffers b;
  b.x = take(arena, dtype, {num_tokens, hidden_});
  b.dx = take(arena, dtype, {num_tokens, hidden_});
  b.weight = take(arena, dtype, {vocab_, hidden_});
  b.dweight = take(arena, DType::float32, {vocab_, hidden_});
  b.logits = take(arena, DType::float32, {chunk_tokens, vocab_});
  b.dlogits = dtype == DType::float32 ? b.logits : take(arena, dtype, {chunk_tokens, vocab_});
  b.max = take(arena, DType::float32, {chunk_tokens});
  b.partials = take(arena, DType::float32, {3, chunk_tokens});
  b.targets = take(arena, DType::int32, {num_tokens});
  b.loss_weights = take(arena, DType::float32, {num_tokens});
  b.metrics = take(arena, DType::float64, {4});
  const ops::Shapes shapes{.tokens = num_tokens, .hidden = hidden_, .vocab = vocab_, .compute = dtype};
  const std::size_t bytes = ops::workspace_bytes(device::Kind::cpu, machine::num_threads(), shapes);
  b.workspace = take(arena, DType::float32, {static_cast<std::int64_t>(bytes / sizeof(float))});
  return b;
}

void Bench::pass(const Buffers& b, std::int64_t chunk_tokens) {
  for (std::int64_t begin = 0; begin < num_tokens; begin += chunk_tokens) {
    const Tensor x = b.x.rows(begin, chunk_tokens);
    const ops::CrossEntropy chunk{.logits = b.logits,
                                  .max = b.max,
                                  .partials = b.partials,
                                  .targets = b.targets.rows(begin, chunk_tokens),
                                  .loss_weights = b.loss_weights.rows(begin, chunk_tokens),
                                  .vocab_begin = 0};
    ops_->run(ops::Matmul{.a = x, .b = b.weight, .c = b.logits, .transpose_b = true});
    ops_->run(ops::CrossEntropyMax{chunk});
    ops_->run(ops::CrossEntropyPartials{chunk});
    ops_->run(ops::CrossEntropyFinish{chunk, b.dlogits, 1e-3, b.metrics});
    ops_->run(ops::Matmul{.a = b.dlogits, .b = b.weight, .c = b.dx.rows(begin, chunk_tokens)});
    ops_->run(ops::Matmul{.a = b.dlogits, .b = x, .c = b.dweight, .transpose_a = true, .accumulate = true});
  }
}

void Bench::run(DType dtype) {
  std::printf("\n%s, vocabulary %lld, hidden %lld, %d threads\n%12s %12s %12s\n", name_of(dtype),
              static_cast<long long>(vocab_), static_cast<long long>(hidden_), omp_get_max_threads(), "chunk tokens",
              "us a token", "logits");
  for (std::int64_t chunk_tokens = 64; chunk_tokens <= num_tokens; chunk_tokens *= 2) {
    device::Arena arena;
    (void)take_buffers(arena, dtype, chunk_tokens);
    arena = device::Arena(*device_, ledger_, device::Label::activations, arena.used_bytes());
    const Buffers b = take_buffers(arena, dtype, chunk_tokens);
    ops_->set_workspace(b.workspace);
    ops_->run(ops::Fill{b.x, 0.01F});
    ops_->run(ops::Fill{b.weight, 0.01F});
    ops_->run(ops::Fill{b.dweight, 0.0F});
    ops_->run(ops::Fill{b.loss_weights, 1.0F});
    device_->fill_zero(b.targets.data, b.targets.size_bytes(), *stream_);
    device_->fill_zero(b.metrics.data, b.metrics.size_bytes(), *stream_);
    double best_s = 1e30;
    for (int i = 0; i < 3; ++i) {
      const auto begin = std::chrono::steady_clock::now();
      pass(b, chunk_tokens);
      best_s = std::min(best_s, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    }
    std::printf("%12lld %12.1f %12s\n", static_cast<long long>(chunk_tokens), best_s / num_tokens * 1e6,
                format_bytes(b.logits.size_bytes()).c_str());
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace sft

int main(int argc, char** argv) {
  sft::Bench bench(argc > 1 ? std::atoll(argv[1]) : 151936, argc > 2 ? std::atoll(argv[2]) : 896);
  bench.run(sft::DType::float32);
  bench.run(sft::DType::bf16);
  return 0;
}
