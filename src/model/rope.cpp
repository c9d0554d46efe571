// SPDX-License-Identifier: Apache-2.0
#include "sft/model/rope.hpp"

#include <cmath>
#include <numbers>

namespace sft::model {

std::vector<double> inverse_frequencies(const config::Model& model) {
  const config::RopeScaling& s = model.rope_scaling;
  const auto old_length = static_cast<double>(s.original_max_position_embeddings);
  std::vector<double> result;
  for (std::int64_t i = 0; i < model.head_dim; i += 2) {
    double f = std::pow(model.rope_theta, -static_cast<double>(i) / static_cast<double>(model.head_dim));
    if (s.rope_type == config::RopeType::linear) {
      f /= s.factor;
    } else if (s.rope_type == config::RopeType::llama3) {
      const double turns = old_length * f / (2 * std::numbers::pi);  // within the original context
      if (turns < s.low_freq_factor) {
        f /= s.factor;
      } else if (turns <= s.high_freq_factor) {
        const double smooth = (turns - s.low_freq_factor) / (s.high_freq_factor - s.low_freq_factor);
        f = (1 - smooth) * f / s.factor + smooth * f;
      }
    }
    result.push_back(f);
  }
  return result;
}

}  // namespace sft::model
