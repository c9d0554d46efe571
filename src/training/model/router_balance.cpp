// SPDX-License-Identifier: Apache-2.0
#include "sft/model/router_balance.hpp"

#include <algorithm>
#include <numeric>
#include <span>

namespace sft::model {

RouterBalance::RouterBalance(const config::Model& model)
    : num_experts_(model.num_experts),
      num_choices_(model.num_experts_per_tok),
      num_layers_(model.num_expert_layers()),
      on_host_((num_layers_ + 1) * num_experts_),
      totals_(num_experts_) {}

void RouterBalance::lay_out(device::Arena& workspace) {
  if (num_layers_ == 0) return;
  sums_ = take(workspace, DType::float64, {num_layers_ + 1, num_experts_});
  all_choices_ = take(workspace, DType::float64, {num_experts_});
}

void RouterBalance::begin(const Context& c, bool counts) {
  counts_ = counts && num_layers_ > 0;
  if (counts_) c.device.fill_zero(sums_.data, sums_.size_bytes(), c.ops.stream());
}

Tensor RouterBalance::choices(std::int64_t layer) const { return sums_.rows(layer, 1).view({num_experts_}); }

Tensor RouterBalance::probabilities() const { return choices(num_layers_); }

void RouterBalance::share(const Context& c, double scale) {
  if (num_layers_ == 0) return;
  c.device.copy(on_host_.data(), sums_.data, sums_.size_bytes(), c.ops.stream());
  c.ops.stream().synchronize();
  if (c.tp.rank() != 0) std::ranges::fill(on_host_, 0.0);  // the ranks of tp have the same tokens
  if (c.sum_over_world) c.sum_over_world(on_host_);

  std::ranges::fill(totals_, 0.0);
  for (std::int64_t layer = 0; layer < num_layers_; ++layer) {
    for (std::int64_t e = 0; e < num_experts_; ++e) totals_[e] += on_host_[layer * num_experts_ + e];
  }
  const double num_tokens =
      std::reduce(totals_.begin(), totals_.end(), 0.0) / static_cast<double>(std::max<std::int64_t>(num_choices_, 1));
  const double share = num_tokens > 0 ? static_cast<double>(num_experts_) / (num_tokens * num_tokens) : 0.0;
  const auto probabilities = std::span(on_host_).last(num_experts_);
  aux_loss_ = share * std::inner_product(totals_.begin(), totals_.end(), probabilities.begin(), 0.0);
  factor_ = scale * share;
  c.device.copy(all_choices_.data, totals_.data(), all_choices_.size_bytes(), c.ops.stream());
}

std::vector<double> RouterBalance::choices_by_layer() const {
  return {on_host_.begin(), on_host_.end() - num_experts_};
}

double expert_imbalance(const std::vector<double>& choices_by_layer, std::int64_t num_experts) {
  double largest = 0.0;
  for (auto begin = choices_by_layer.begin(); begin != choices_by_layer.end(); begin += num_experts) {
    const double mean = std::reduce(begin, begin + num_experts, 0.0) / static_cast<double>(num_experts);
    if (mean > 0) largest = std::max(largest, *std::max_element(begin, begin + num_experts) / mean);
  }
  return largest;
}

}  // namespace sft::model
