// SPDX-License-Identifier: Apache-2.0
#pragma once
// The ops in plain double-precision loops over contiguous arrays: obvious rather than fast.

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "sft/ops/backend.hpp"

namespace sft::ops::naive {

using Values = std::vector<double>;
using Size = std::int64_t;

struct Norm {
  Values y, rstd;
};

/// Rows of `size` elements.
inline Norm rms_norm(const Values& x, const Values& weight, double epsilon) {
  const Size size = static_cast<Size>(weight.size()), rows = static_cast<Size>(x.size()) / size;
  Norm result{x, Values(static_cast<std::size_t>(rows))};
  for (Size t = 0; t < rows; ++t) {
    double sum = 0.0;
    for (Size c = 0; c < size; ++c) sum += x[t * size + c] * x[t * size + c];
    result.rstd[t] = 1.0 / std::sqrt(sum / static_cast<double>(size) + epsilon);
    for (Size c = 0; c < size; ++c) result.y[t * size + c] = x[t * size + c] * result.rstd[t] * weight[c];
  }
  return result;
}

struct NormGradient {
  Values dx, dweight;
};

inline NormGradient rms_norm_backward(const Values& dy, const Values& x, const Values& rstd, const Values& weight) {
  const Size size = static_cast<Size>(weight.size()), rows = static_cast<Size>(x.size()) / size;
  NormGradient result{x, Values(weight.size())};
  for (Size t = 0; t < rows; ++t) {
    double mean = 0.0;
    for (Size c = 0; c < size; ++c) {
      mean += dy[t * size + c] * weight[c] * x[t * size + c] * rstd[t] / static_cast<double>(size);
      result.dweight[c] += dy[t * size + c] * x[t * size + c] * rstd[t];
    }
    for (Size c = 0; c < size; ++c) {
      result.dx[t * size + c] = rstd[t] * (dy[t * size + c] * weight[c] - x[t * size + c] * rstd[t] * mean);
    }
  }
  return result;
}

/// x (T, n, D) turned by direction * position * inverse frequency.
inline Values rope(const Values& x, const Values& positions, const Values& inverse_frequencies, Size num_heads,
                   double direction) {
  const Size half = static_cast<Size>(inverse_frequencies.size());
  Values out(x.size());
  for (Size t = 0; t < static_cast<Size>(positions.size()); ++t) {
    for (Size h = 0; h < num_heads; ++h) {
      for (Size j = 0; j < half; ++j) {
        const double angle = direction * positions[t] * inverse_frequencies[j];
        const Size first = (t * num_heads + h) * 2 * half + j, second = first + half;
        out[first] = x[first] * std::cos(angle) - x[second] * std::sin(angle);
        out[second] = x[second] * std::cos(angle) + x[first] * std::sin(angle);
      }
    }
  }
  return out;
}

/// c (m, n) = op(a) op(b)
Values matmul(const Values& a, const Values& b, Size m, Size n, Size k, bool transpose_a, bool transpose_b);

struct Attention {
  Size num_heads, num_kv_heads, head_dim;
  double scale;
  double softcap = 0.0;
  Values sinks = {};  ///< (H) or none

  [[nodiscard]] double score(const Values& q, const Values& k, Size i, Size j, Size h) const {
    double sum = 0.0;
    for (Size d = 0; d < head_dim; ++d) sum += q[query(i, h) + d] * k[key(j, h) + d];
    return softcap > 0.0 ? softcap * std::tanh(scale * sum / softcap) : scale * sum;
  }
  /// The derivative of a score by the one before the cap.
  [[nodiscard]] double slope(double score) const {
    return softcap > 0.0 ? 1.0 - score * score / (softcap * softcap) : 1.0;
  }
  [[nodiscard]] Size query(Size i, Size h) const { return (i * num_heads + h) * head_dim; }
  [[nodiscard]] Size key(Size j, Size h) const {
    return (j * num_kv_heads + h / (num_heads / num_kv_heads)) * head_dim;
  }

  /// Calls visit(query row, key row) for every visible pair.
  template <class F>
  static void for_each_pair(const std::vector<sequence::AttentionSpan>& spans, F visit) {
    for (const sequence::AttentionSpan& span : spans) {
      for (Size i = 0; i < span.q_len; ++i) {
        for (Size j = 0; j < span.k_len && j <= i + span.diagonal; ++j) {
          if (span.window > 0 && j <= i + span.diagonal - span.window) continue;
          visit(span.q_begin + i, span.k_begin + j);
        }
      }
    }
  }

  /// out (T, H, D) and lse (T, H); 0 and -inf where nothing is visible.
  void forward(Values& out, Values& lse, const Values& q, const Values& k, const Values& v,
               const std::vector<sequence::AttentionSpan>& spans) const;

  /// dq, dk, dv += the gradients.
  void backward(Values& dq, Values& dk, Values& dv, const Values& q, const Values& k, const Values& v,
                const Values& out, const Values& lse, const Values& dout,
                const std::vector<sequence::AttentionSpan>& spans) const;

  /// dsinks += the gradient.
  void sinks_backward(Values& dsinks, const Values& out, const Values& lse, const Values& dout) const {
    for (std::size_t i = 0; i < out.size(); ++i) {
      const std::size_t row = i / static_cast<std::size_t>(head_dim), h = row % static_cast<std::size_t>(num_heads);
      if (std::isfinite(lse[row])) dsinks[h] -= std::exp(sinks[h] - lse[row]) * out[i] * dout[i];
    }
  }
};

struct CrossEntropyResult {
  Values dlogits;
  double loss = 0.0, num_targets = 0.0, num_correct = 0.0, entropy = 0.0;
};

/// logits (T, V); `loss` as in ops::TokenLoss.
inline CrossEntropyResult cross_entropy(const Values& logits, const Values& targets, const Values& weights,
                                        double gradient_scale, const TokenLoss& loss = {}) {
  const Size rows = static_cast<Size>(targets.size()), columns = static_cast<Size>(logits.size()) / rows;
  CrossEntropyResult result{Values(logits.size())};
  for (Size t = 0; t < rows; ++t) {
    if (weights[t] == 0.0) continue;
    const double* x = logits.data() + t * columns;
    const Size target = static_cast<Size>(targets[t]);
    double total = 0.0, largest = -std::numeric_limits<double>::infinity();
    for (Size c = 0; c < columns; ++c) {
      total += std::exp(x[c]);
      largest = std::max(largest, x[c]);
    }
    const double target_p = std::exp(x[target]) / total, share = loss.label_smoothing;
    const double token_weight = weights[t] * (loss.dft ? target_p : 1.0);
    for (Size c = 0; c < columns; ++c) {
      const double p = std::exp(x[c]) / total;
      const double label = (c == target ? 1.0 - share : 0.0) + share / static_cast<double>(columns);
      result.dlogits[t * columns + c] = gradient_scale * token_weight * (p - label);
      result.entropy += p > 0.0 ? -p * std::log(p) : 0.0;
      result.loss += label > 0.0 ? token_weight * label * (std::log(total) - x[c]) : 0.0;
    }
    result.num_targets += 1.0;
    result.num_correct += x[target] == largest ? 1.0 : 0.0;
  }
  return result;
}

}  // namespace sft::ops::naive
