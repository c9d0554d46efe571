// SPDX-License-Identifier: Apache-2.0
#include "sft/model/rope.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace sft::model {

namespace {

/// How much of the plain frequency i of YaRN stays, from 1 to 0 along the dims: section 3.2 of the paper.
std::vector<double> yarn_kept_parts(const Rope& rope) {
  const config::RopeScaling& s = rope.scaling;
  const auto dims = static_cast<double>(rope.dims);
  // The dim whose frequency turns so often within the original context.
  const auto dim_of = [&](double turns) {
    const double wavelength = static_cast<double>(s.original_max_position_embeddings) / (turns * 2 * std::numbers::pi);
    return dims * std::log(wavelength) / (2 * std::log(rope.theta));
  };
  const double first = s.truncate ? std::floor(dim_of(s.beta_fast)) : dim_of(s.beta_fast);
  const double last = s.truncate ? std::ceil(dim_of(s.beta_slow)) : dim_of(s.beta_slow);
  const double begin = std::max(first, 0.0);
  const double end = std::min(last, dims - 1);
  const double width = begin == end ? 0.001 : end - begin;  // as transformers does
  std::vector<double> kept;
  for (std::int64_t i = 0; i < rope.dims / 2; ++i) {
    kept.push_back(1 - std::clamp((static_cast<double>(i) - begin) / width, 0.0, 1.0));
  }
  return kept;
}

}  // namespace

std::vector<Rope> ropes(const config::Model& model) {
  const Rope rope{.dims = model.rotary_dim(), .theta = model.rope_theta, .scaling = model.rope_scaling};
  if (model.rope_local_base_freq > 0.0) {
    return {rope, {.dims = rope.dims, .theta = model.rope_local_base_freq, .scaling = {}}};
  }
  if (model.llama_4_scaling_beta == 0.0) return {rope};
  Rope of_queries = rope;
  of_queries.query_growth = model.llama_4_scaling_beta;
  return {rope, of_queries};
}

std::vector<double> inverse_frequencies(const Rope& rope) {
  const config::RopeScaling& s = rope.scaling;
  const std::vector<double> kept =
      s.rope_type == config::RopeType::yarn ? yarn_kept_parts(rope) : std::vector<double>{};
  const auto old_length = static_cast<double>(s.original_max_position_embeddings);
  std::vector<double> result;
  for (std::int64_t i = 0; i < rope.dims; i += 2) {
    double f = std::pow(rope.theta, -static_cast<double>(i) / static_cast<double>(rope.dims));
    if (s.rope_type == config::RopeType::linear) {
      f /= s.factor;
    } else if (s.rope_type == config::RopeType::yarn) {
      const double part = kept[i / 2];
      f = part * f + (1 - part) * f / s.factor;
    } else if (s.rope_type == config::RopeType::llama3) {
      const double turns = old_length * f / (2 * std::numbers::pi);  // within the original context
      if (turns < s.low_freq_factor) {
        f /= s.factor;
      } else if (turns <= s.high_freq_factor) {
        const double smooth = (turns - s.low_freq_factor) / (s.high_freq_factor - s.low_freq_factor);
        f = (1 - smooth) * f / s.factor + smooth * f;
      }
    }
    if (s.rope_type == config::RopeType::longrope) f /= s.short_factor.at(i / 2);
    result.push_back(f);
  }
  return result;
}

}  // namespace sft::model
