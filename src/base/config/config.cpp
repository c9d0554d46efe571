// SPDX-License-Identifier: Apache-2.0
#include "sft/config/config.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "sft/core/ensure.hpp"

namespace sft::config {

std::int64_t Model::num_expert_layers() const {
  std::int64_t count = 0;
  for (std::size_t layer = 0; std::cmp_less(layer, num_hidden_layers); ++layer) count += has_experts(layer) ? 1 : 0;
  return count;
}

sequence::AttentionMethod Parallel::attention_method() const {
  using Keys = sequence::AttentionMethod::Keys;
  switch (sp_method) {
    case SpMethod::ring:
      return {Keys::ring, 1};
    case SpMethod::all_gather:
      return {Keys::all_gather, 1};
    case SpMethod::ulysses:
      return {Keys::ring, sp_size};
    case SpMethod::hybrid:
      SFT_ENSURE(ulysses_size > 0, "ulysses_size = auto is resolved");
      return {Keys::ring, ulysses_size};
    case SpMethod::automatic:
      break;
  }
  SFT_ENSURE(false, "sp_method = auto is resolved");
  return {};
}

AxisArray<int> Parallel::sizes() const {
  AxisArray<int> sizes(1, {});
  for (const AxisKeys& keys : axis_keys) sizes[keys.axis] = this->*keys.size;
  return sizes;
}

AxisArray<int> Device::max_ctas() const {
  AxisArray<int> limits;
  for (const AxisKeys& keys : axis_keys) limits[keys.axis] = this->*keys.max_ctas;
  return limits;
}

std::int64_t Config::effective_batch_rows() const {
  return train.per_device_train_batch_size * num_ranks(parallel.sizes(), data_axes) * train.gradient_accumulation_steps;
}

}  // namespace sft::config
