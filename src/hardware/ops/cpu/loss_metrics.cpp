// SPDX-License-Identifier: Apache-2.0
#include "ops/cpu/loss_metrics.hpp"

#include <cmath>

namespace sft::ops::cpu {

void add_loss_metrics(const CrossEntropyView& chunk, double* metrics) {
  for (std::int64_t t = 0; t < chunk.rows; ++t) {
    const double weight = chunk.weights[t];
    if (!(weight > 0.0)) continue;
    const double sum_exp = chunk.sum_exp[t], largest = chunk.max[t], logit = chunk.target_logit[t];
    const double log_sum = std::log(sum_exp);
    const double nll = log_sum + (largest - logit);
    const double mean_nll = chunk.sum_logit == nullptr ? 0.0 : log_sum - chunk.sum_logit[t] * chunk.inverse_vocab;
    metrics[0] +=
        weight * (chunk.dft ? nll * std::exp(-nll) : (1.0 - chunk.smoothing) * nll + chunk.smoothing * mean_nll);
    metrics[1] += 1.0;
    metrics[2] += logit >= largest ? 1.0 : 0.0;
    metrics[3] += log_sum - chunk.sum_exp_logit[t] / sum_exp;
  }
}

}  // namespace sft::ops::cpu
