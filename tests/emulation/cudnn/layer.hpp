// SPDX-License-Identifier: Apache-2.0
#pragma once
// A layer's attention on the CPU and, by cuDNN, on the GPU. The same tests are linked with the emulated library and, in
// tests/device, with the real one.

#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "emulation/ops/support.hpp"
#include "sft/sequence/attention.hpp"

namespace sft::ops::testing {

using Spans = std::vector<sequence::AttentionSpan>;

/// A Hopper, cuDNN in the place of the kernels, and a folder of compiled graphs of the test's own.
struct CudnnTest {
  CudnnTest() {
    setenv("SFT_EMULATED_COMPUTE_CAPABILITY", "90", 1);
    std::filesystem::remove_all(cache());
    setenv("XDG_CACHE_HOME", cache().c_str(), 1);
    tested_attention() = AttentionKernels::cudnn;
  }
  ~CudnnTest() {
    std::error_code ignored;
    std::filesystem::remove_all(cache(), ignored);
  }
  static std::filesystem::path cache() {
    return std::filesystem::temp_directory_path() / ("sft-cudnn-test-" + std::to_string(::getpid()));
  }
};

struct Heads {
  std::int64_t num, num_kv, dim;
};

inline Spans documents_of(const std::vector<std::int64_t>& lengths, std::int64_t begin = 0, std::int64_t window = 0) {
  Spans spans;
  for (const std::int64_t length : lengths) {
    spans.push_back({begin, length, begin, length, 0, static_cast<std::int64_t>(spans.size()), window});
    begin += length;
  }
  return spans;
}

/// Columns of heads of a fused product.
inline Tensor heads_of(const Tensor& fused, std::int64_t begin, std::int64_t count) {
  Tensor heads = fused;
  heads.data =
      static_cast<std::byte*>(fused.data) + static_cast<std::size_t>(begin * fused.shape[2]) * size_of(fused.dtype);
  heads.shape[1] = count;
  return heads;
}

/// Rows of q, k and v side by side, as the model has them, their gradients, and the rest of a layer's attention.
struct Layer {
  Heads heads;
  std::int64_t tokens;
  Twin qkv, out, lse, dout, delta, dqkv;
  float scale;

  Layer(Heads of, std::int64_t num_tokens, unsigned seed, Layout layout = {}, DType compute = DType::bf16)
      : heads(of),
        tokens(num_tokens),
        qkv(Twin(compute, {tokens, of.num + 2 * of.num_kv, of.dim}, layout).normal(seed, 1.5)),
        out(compute, {tokens, of.num, of.dim}, layout),
        lse(DType::float32, {tokens, of.num}),
        dout(Twin(compute, {tokens, of.num, of.dim}, layout).normal(seed + 1)),
        delta(DType::float32, {tokens, of.num}),
        dqkv(compute, {tokens, of.num + 2 * of.num_kv, of.dim}, layout),
        scale(1.0F / std::sqrt(static_cast<float>(of.dim))) {}

  [[nodiscard]] Tensor q(const Tensor& fused) const { return heads_of(fused, 0, heads.num); }
  [[nodiscard]] Tensor k(const Tensor& fused) const { return heads_of(fused, heads.num, heads.num_kv); }
  [[nodiscard]] Tensor v(const Tensor& fused) const { return heads_of(fused, heads.num + heads.num_kv, heads.num_kv); }

  template <class Of>
  void forward(Backend& backend, Of of, const AttentionPlan& plan) {
    const Tensor fused = of(qkv);
    backend.run(AttentionForward{q(fused), k(fused), v(fused), of(out), of(lse), scale, plan});
  }
  template <class Of>
  void backward(Backend& backend, Of of, const AttentionPlan& plan) {
    const Tensor fused = of(qkv), gradient = of(dqkv);
    backend.run(AttentionDelta{of(delta), of(out), of(dout)});
    backend.run(AttentionBackward{.q = q(fused),
                                  .k = k(fused),
                                  .v = v(fused),
                                  .dout = of(dout),
                                  .lse = of(lse),
                                  .delta = of(delta),
                                  .dq = q(gradient),
                                  .dk = k(gradient),
                                  .dv = v(gradient),
                                  .scale = scale,
                                  .plan = plan,
                                  .out = of(out)});
  }
};

// Both sides round probabilities and gradients of scores to bf16, in other places: each result is within 0.004 of the
// exact one on either side, and rounded once more where it is stored.
inline constexpr Tolerance sums{.of_largest = 0.012, .absolute = 5e-6},
    lse_tolerance{.of_largest = 3e-6, .of_itself = 3e-6};

inline std::vector<Operand> operands_of(Layer& layer, bool is_backward) {
  std::vector<Operand> operands = {in(layer.qkv), out(layer.out, sums), out(layer.lse, lse_tolerance)};
  if (!is_backward) return operands;
  operands.insert(operands.end(), {in(layer.dout), out(layer.delta, {.of_largest = 0.02}), out(layer.dqkv, sums)});
  return operands;
}

/// Runs both passes by cuDNN and on the CPU.
inline void check_layer(const std::string& what, Layer& layer, const Spans& spans) {
  check(what, operands_of(layer, true), [&](Backend& backend, auto of) {
    const auto plan = backend.plan_attention(spans, layer.tokens, layer.tokens);
    layer.forward(backend, of, *plan);
    layer.backward(backend, of, *plan);
  });
}

}  // namespace sft::ops::testing
