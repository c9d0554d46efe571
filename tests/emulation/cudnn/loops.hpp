// SPDX-License-Identifier: Apache-2.0
#pragma once
// Attention through cuDNN against loops in double, which round only what they give.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include "emulation/cudnn/layer.hpp"

namespace sft::ops::testing {

/// A layer's results on the host, in the place of the CPU backend's.
class Loops {
 public:
  explicit Loops(Layer& layer) : layer_(layer) {
    for (Twin* twin : {&layer.out, &layer.dqkv}) std::move(*twin).filled(0.0);
    std::move(layer.lse).filled(-std::numeric_limits<double>::infinity());
  }

  void run(const Spans& spans) {
    gradients_.assign(static_cast<std::size_t>(layer_.tokens * columns_of_all()), 0.0);
    for (const sequence::AttentionSpan& span : spans) {
      for (std::int64_t row = 0; row < span.q_len; ++row) {
        for (std::int64_t head = 0; head < layer_.heads.num; ++head) query(span, row, head);
      }
    }
    layer_.dqkv.for_each(
        [&](std::int64_t row, std::int64_t column) { set(layer_.dqkv, row, column, gradient(row, column)); });
  }

 private:
  [[nodiscard]] std::int64_t columns_of_all() const {
    return (layer_.heads.num + 2 * layer_.heads.num_kv) * layer_.heads.dim;
  }
  static double element(Twin& twin, std::int64_t row, std::int64_t column) {
    return get(twin.at(twin.bytes(), row, column), twin.cpu().dtype);
  }
  static void set(Twin& twin, std::int64_t row, std::int64_t column, double value) {
    put(twin.at(twin.bytes(), row, column), twin.cpu().dtype, value);
  }
  double& gradient(std::int64_t row, std::int64_t column) {
    return gradients_[static_cast<std::size_t>(row * columns_of_all() + column)];
  }

  /// One query of one head, forward and backward.
  void query(const sequence::AttentionSpan& span, std::int64_t row, std::int64_t head) {
    const Heads& h = layer_.heads;
    const std::int64_t q_row = span.q_begin + row, d = h.dim, q_column = head * d,
                       k_column = (h.num + head / (h.num / h.num_kv)) * d, v_column = k_column + h.num_kv * d;
    const std::int64_t end = std::min(row + span.diagonal + 1, span.k_len);
    std::int64_t first = 0;
    if (span.window > 0) first = std::max<std::int64_t>(row + span.diagonal - span.window + 1, 0);
    std::vector<double> weights;
    for (std::int64_t key = first; key < end; ++key) {
      double score = 0;
      for (std::int64_t i = 0; i < d; ++i) {
        score += element(layer_.qkv, q_row, q_column + i) * element(layer_.qkv, span.k_begin + key, k_column + i);
      }
      weights.push_back(layer_.scale * score);
    }
    const double largest = *std::ranges::max_element(weights);
    double sum = 0;
    for (double& weight : weights) {
      weight = std::exp(weight - largest);
      sum += weight;
    }
    set(layer_.lse, q_row, head, largest + std::log(sum));
    double delta = 0;
    std::vector<double> d_weights(weights.size());
    for (std::int64_t i = 0; i < d; ++i) {
      const double d_out = element(layer_.dout, q_row, q_column + i);
      double out = 0;
      for (std::size_t n = 0; n < weights.size(); ++n) {
        const std::int64_t k_row = span.k_begin + first + static_cast<std::int64_t>(n);
        const double value = element(layer_.qkv, k_row, v_column + i), weight = weights[n] / sum;
        out += weight * value;
        d_weights[n] += d_out * value;
        gradient(k_row, v_column + i) += weight * d_out;
      }
      set(layer_.out, q_row, q_column + i, out);
      delta += out * d_out;
    }
    for (std::size_t n = 0; n < weights.size(); ++n) {
      const std::int64_t k_row = span.k_begin + first + static_cast<std::int64_t>(n);
      const double d_score = layer_.scale * weights[n] / sum * (d_weights[n] - delta);
      for (std::int64_t i = 0; i < d; ++i) {
        gradient(q_row, q_column + i) += d_score * element(layer_.qkv, k_row, k_column + i);
        gradient(k_row, k_column + i) += d_score * element(layer_.qkv, q_row, q_column + i);
      }
    }
  }

  Layer& layer_;
  std::vector<double> gradients_;  ///< of qkv
};

// Gradients of scores nearly cancel where a query sees few keys, and what the stored output was rounded by stays: 0.008
// in float32 here; the matrix instructions of a GPU round probabilities to bf16 beside that.
inline constexpr Tolerance gradients_by_loops{.of_largest = 0.02};

/// Runs both passes by cuDNN and compares them with loops.
inline void check_by_loops(const std::string& what, Layer& layer, const Spans& spans) {
  const std::vector<Operand> results = {out(layer.out, sums), out(layer.lse, lse_tolerance),
                                        out(layer.dqkv, gradients_by_loops)};
  std::vector<Operand> operands = results;
  operands.insert(operands.end(), {in(layer.qkv), in(layer.dout), in(layer.delta)});
  std::vector<std::vector<std::byte>> before;
  for (const Operand& operand : results) before.push_back(operand.twin->bytes());
  auto actual = run_on_gpu(operands, [&](Backend& backend, auto of) {
    const auto plan = backend.plan_attention(spans, layer.tokens, layer.tokens);
    layer.forward(backend, of, *plan);
    layer.backward(backend, of, *plan);
  });
  Loops(layer).run(spans);
  for (std::size_t i = 0; i < results.size(); ++i) {
    compare(*results[i].twin, actual[i], before[i], results[i], what + ", result " + std::to_string(i));
  }
}

}  // namespace sft::ops::testing
