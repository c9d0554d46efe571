// SPDX-License-Identifier: Apache-2.0
#pragma once
// Attention through cuDNN against loops in double, which round to bf16 what the frontend's graphs do: probabilities
// before they meet values and gradients of outputs, the output before delta, gradients of scores before those of keys
// (not before those of queries), and what each head of queries adds to the gradients of its keys and values.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "emulation/cudnn/layer.hpp"

namespace sft::ops::testing {

/// A layer's results on the host, in the place of the CPU backend's.
class Loops {
 public:
  explicit Loops(Layer& layer) : layer_(layer) {
    for (Twin* twin : {&layer.out, &layer.delta, &layer.dqkv}) std::move(*twin).filled(0.0);
    std::move(layer.lse).filled(-std::numeric_limits<double>::infinity());
  }

  void run(const Spans& spans) {
    gradients_.assign(static_cast<std::size_t>(layer_.tokens * 3 * layer_.heads.num * layer_.heads.dim), 0.0);
    for (const sequence::AttentionSpan& span : spans) {
      for (std::int64_t row = 0; row < span.q_len; ++row) {
        for (std::int64_t head = 0; head < layer_.heads.num; ++head) query(span, row, head);
      }
    }
    layer_.dqkv.for_each(
        [&](std::int64_t row, std::int64_t column) { set(layer_.dqkv, row, column, sum_of_heads(row, column)); });
  }

 private:
  static double element(Twin& twin, std::int64_t row, std::int64_t column) {
    return get(twin.at(twin.bytes(), row, column), twin.cpu().dtype);
  }
  static void set(Twin& twin, std::int64_t row, std::int64_t column, double value) {
    put(twin.at(twin.bytes(), row, column), twin.cpu().dtype, value);
  }
  static double rounded(double value) {
    std::array<std::byte, 2> bf16{};
    put(bf16.data(), DType::bf16, value);
    return get(bf16.data(), DType::bf16);
  }
  enum class Of : std::uint8_t { q, k, v };
  double* gradient(Of of, std::int64_t row, std::int64_t head) {
    const Heads& h = layer_.heads;
    return &gradients_[static_cast<std::size_t>(((row * 3 + static_cast<int>(of)) * h.num + head) * h.dim)];
  }
  /// An element of the gradient of q, k and v side by side.
  double sum_of_heads(std::int64_t row, std::int64_t column) {
    const Heads& h = layer_.heads;
    const std::int64_t head = column / h.dim, i = column % h.dim, group = h.num / h.num_kv;
    if (head < h.num) return gradient(Of::q, row, head)[i];
    const std::int64_t of_kv = head - h.num;
    const Of of = of_kv < h.num_kv ? Of::k : Of::v;
    double sum = 0;
    for (std::int64_t n = 0; n < group; ++n) sum += rounded(gradient(of, row, of_kv % h.num_kv * group + n)[i]);
    return sum;
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
        const double value = element(layer_.qkv, k_row, v_column + i), weight = rounded(weights[n] / sum);
        out += weight * value;
        d_weights[n] += d_out * value;
        gradient(Of::v, k_row, head)[i] += weight * d_out;
      }
      set(layer_.out, q_row, q_column + i, out);
      delta += element(layer_.out, q_row, q_column + i) * d_out;
    }
    set(layer_.delta, q_row, head, delta);
    for (std::size_t n = 0; n < weights.size(); ++n) {
      const std::int64_t k_row = span.k_begin + first + static_cast<std::int64_t>(n);
      const double d_score = layer_.scale * weights[n] / sum * (d_weights[n] - delta);
      for (std::int64_t i = 0; i < d; ++i) {
        gradient(Of::q, q_row, head)[i] += d_score * element(layer_.qkv, k_row, k_column + i);
        gradient(Of::k, k_row, head)[i] += rounded(d_score) * element(layer_.qkv, q_row, q_column + i);
      }
    }
  }

  Layer& layer_;
  std::vector<double> gradients_;  ///< (tokens, q k v, heads of queries, dim)
};

// The emulated library sums in float32 where the loops do in double, so a number that lies between two of bf16 may be
// rounded to either: a unit of bf16 (2^-7 of the number at most) of each result and, seldom, of an output, a
// probability or a head's sum that it is made of. One such term is a part of the result, so 0.004 of the largest covers
// it: 0.003 is the most that eight seeds gave. A GPU's kernels round probabilities before they divide by their sum, and
// gradients of scores before those of queries too: every term differs by up to 2^-8 of itself.
#ifdef SFT_REAL_GPU
inline constexpr Tolerance outputs_by_loops = sums, delta_by_loops{.of_largest = 0.02},
                           gradients_by_loops{.of_largest = 0.02};
#else
inline constexpr Tolerance outputs_by_loops{.of_largest = 0.004, .of_itself = 0.004},
    delta_by_loops{.of_largest = 0.004}, gradients_by_loops{.of_largest = 0.004, .of_itself = 0x1p-7};
#endif
// Ranks add up what their pieces of a row give, each rounded to bf16, and pieces may be larger than their sum.
inline constexpr Tolerance gradients_of_pieces{.of_largest = 0.02};

/// Runs op(backend, of) on the GPU, twice, which has to give the same bits; `expect` puts what is expected in the
/// results' places, which is compared.
template <class Op, class Expect>
void check_results(const std::string& what, const std::vector<Operand>& results, const std::vector<Operand>& others,
                   Op op, Expect expect) {
  std::vector<Operand> operands = results;
  operands.insert(operands.end(), others.begin(), others.end());
  std::vector<std::vector<std::byte>> before;
  for (const Operand& operand : results) before.push_back(operand.twin->bytes());
  auto actual = run_on_gpu(operands, op);
  const bool is_same_again = actual == run_on_gpu(operands, op);
  BOOST_TEST(is_same_again, what << ": other bits the second time");
  expect();
  for (std::size_t i = 0; i < results.size(); ++i) {
    compare(*results[i].twin, actual[i], before[i], results[i], what + ", result " + std::to_string(i));
  }
}

/// Results of a layer's forward pass, as loops give them.
inline std::vector<Operand> forward_results(Layer& layer) {
  return {out(layer.out, outputs_by_loops), out(layer.lse, lse_tolerance), out(layer.delta, delta_by_loops)};
}

/// Runs both passes by cuDNN and compares them with loops.
inline void check_by_loops(const std::string& what, Layer& layer, const Spans& spans) {
  std::vector<Operand> results = forward_results(layer);
  results.push_back(out(layer.dqkv, gradients_by_loops));
  check_results(
      what, results, {in(layer.qkv), in(layer.dout)},
      [&](Backend& backend, auto of) {
        const auto plan = backend.plan_attention(spans, layer.tokens, layer.tokens);
        layer.forward(backend, of, *plan);
        layer.backward(backend, of, *plan);
      },
      [&] { Loops(layer).run(spans); });
}

}  // namespace sft::ops::testing
