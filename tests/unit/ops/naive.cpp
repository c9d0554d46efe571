// SPDX-License-Identifier: Apache-2.0
// The longest of the naive loops, in an object of their own: it is compiled for speed, as the tests are not.
#include "unit/ops/naive.hpp"

namespace sft::ops::naive {

Values matmul(const Values& a, const Values& b, Size m, Size n, Size k, bool transpose_a, bool transpose_b) {
  Values c(static_cast<std::size_t>(m * n));
  for (Size i = 0; i < m; ++i) {
    for (Size j = 0; j < n; ++j) {
      for (Size p = 0; p < k; ++p) {
        c[i * n + j] += a[transpose_a ? p * m + i : i * k + p] * b[transpose_b ? j * k + p : p * n + j];
      }
    }
  }
  return c;
}

void Attention::forward(Values& out, Values& lse, const Values& q, const Values& k, const Values& v,
                        const std::vector<sequence::AttentionSpan>& spans) const {
  Values total(lse.size());
  for (const sequence::AttentionSpan& span : spans) {
    for (Size i = span.q_begin; i < span.q_begin + span.q_len; ++i) {
      for (std::size_t h = 0; h < sinks.size(); ++h) total[i * num_heads + h] = std::exp(sinks[h]);
    }
  }
  for (Size h = 0; h < num_heads; ++h) {
    for_each_pair(spans, [&](Size i, Size j) { total[i * num_heads + h] += std::exp(score(q, k, i, j, h)); });
    for_each_pair(spans, [&](Size i, Size j) {
      const double p = std::exp(score(q, k, i, j, h)) / total[i * num_heads + h];
      for (Size d = 0; d < head_dim; ++d) out[query(i, h) + d] += p * v[key(j, h) + d];
    });
  }
  for (std::size_t i = 0; i < lse.size(); ++i) lse[i] = std::log(total[i]);
}

void Attention::backward(Values& dq, Values& dk, Values& dv, const Values& q, const Values& k, const Values& v,
                         const Values& out, const Values& lse, const Values& dout,
                         const std::vector<sequence::AttentionSpan>& spans) const {
  for (Size h = 0; h < num_heads; ++h) {
    for_each_pair(spans, [&](Size i, Size j) {
      const double s = score(q, k, i, j, h), p = std::exp(s - lse[i * num_heads + h]);
      double dp = 0.0;
      for (Size d = 0; d < head_dim; ++d) {
        dp += dout[query(i, h) + d] * (v[key(j, h) + d] - out[query(i, h) + d]);
        dv[key(j, h) + d] += p * dout[query(i, h) + d];
      }
      for (Size d = 0; d < head_dim; ++d) {
        dq[query(i, h) + d] += scale * slope(s) * p * dp * k[key(j, h) + d];
        dk[key(j, h) + d] += scale * slope(s) * p * dp * q[query(i, h) + d];
      }
    });
  }
}

}  // namespace sft::ops::naive
