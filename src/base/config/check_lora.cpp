// SPDX-License-Identifier: Apache-2.0
// Keys of [lora] by themselves, whatever modules the model has.
#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <functional>
#include <string>

#include "config/checks.hpp"
#include "config/refusals.hpp"

namespace sft::config {

namespace {

constexpr double max_rank = 1 << 12;
constexpr double max_rate_ratio = 1e6;

void check_values(const Config& config) {
  const Lora& lora = config.lora;
  Refusals refusals;
  const auto is_rank = [](double rank) { return rank >= 1 && rank <= max_rank && rank == std::trunc(rank); };
  refusals.require(config, is_rank(static_cast<double>(lora.lora_r)), "lora.lora_r",
                   fmt::format("from 1 to {}", max_rank));
  refusals.require(config, lora.lora_alpha > 0, "lora.lora_alpha", "above 0");
  refusals.require(config, lora.lora_dropout >= 0 && lora.lora_dropout < 1, "lora.lora_dropout", "at least 0, below 1");
  refusals.require(config, lora.loraplus_lr_ratio > 0 && lora.loraplus_lr_ratio <= max_rate_ratio,
                   "lora.loraplus_lr_ratio", fmt::format("above 0, at most {}", max_rate_ratio));
  const auto all = [](const ModuleNumbers& numbers, const std::function<bool(double)>& holds) {
    return std::ranges::all_of(numbers, [&](const auto& number) { return holds(number.second); });
  };
  refusals.require(config, all(lora.rank_pattern, is_rank), "lora.rank_pattern",
                   fmt::format("an object of whole numbers from 1 to {}", max_rank));
  refusals.require(config, all(lora.alpha_pattern, [](double alpha) { return alpha > 0; }), "lora.alpha_pattern",
                   "an object of numbers above 0");
  const auto is_block = [&](std::int64_t block) { return block < config.model.num_hidden_layers; };
  refusals.require(config, std::ranges::all_of(lora.layers_to_transform, is_block), "lora.layers_to_transform",
                   fmt::format("numbers of blocks, below num_hidden_layers = {}", config.model.num_hidden_layers));
  refusals.throw_if_any();
}

}  // namespace

void check_lora(const Config& config) {
  const Lora& lora = config.lora;
  if (!lora.use_peft) return;
  Refusals refusals;
  refusals.collect([&] { check_values(config); });
  refusals.require(config, !lora.lora_target_modules.empty() || lora.adapts_experts(), "lora.lora_target_modules",
                   "all-linear or names of linear layers");
  refusals.throw_if_any();
}

}  // namespace sft::config
