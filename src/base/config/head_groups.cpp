// SPDX-License-Identifier: Apache-2.0
#include "sft/config/head_groups.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "config/checks.hpp"
#include "sft/core/error.hpp"

namespace sft::config {

std::int64_t kv_heads_of_rank(const Config& config) {
  return std::max<std::int64_t>(1, config.model.num_key_value_heads / config.parallel.tp_size);
}

namespace {

std::int64_t q_heads_of_rank(const Config& config) {
  return config.model.num_attention_heads / config.parallel.tp_size;
}

/// Ranks that exchange heads, as far as that is known before rank::resolve_sp_method.
std::int64_t num_exchanging(const Parallel& parallel) {
  if (parallel.sp_method == SpMethod::ulysses) return parallel.sp_size;
  return parallel.sp_method == SpMethod::hybrid ? std::max(1, parallel.ulysses_size) : 1;
}

/// Whether each group has as many query heads for each rank that exchanges heads.
bool may_exchange(const Config& config, std::int64_t num_groups) {
  return q_heads_of_rank(config) / num_groups % num_exchanging(config.parallel) == 0;
}

}  // namespace

std::int64_t most_head_groups(const Config& config) {
  const std::int64_t num_heads = kv_heads_of_rank(config);
  for (std::int64_t groups = num_heads; groups > 1; --groups) {
    if (num_heads % groups == 0 && may_exchange(config, groups)) return groups;
  }
  return 1;
}

std::string why_all_heads_at_once(const Config& config) {
  if (config.train.activation_checkpointing != ActivationCheckpointing::full) {
    return "queries, keys and values of all heads are kept without activation_checkpointing = full";
  }
  if (config.model.qk_norm_all_heads) return "queries and keys are normed over all heads together";
  return "";
}

void check_head_groups(const Config& config) {
  const std::int64_t groups = config.train.attention_head_groups.value_or(1);
  if (groups == 1) return;
  const std::string setting = fmt::format("`train.attention_head_groups = {}`", groups);
  if (const std::string why = why_all_heads_at_once(config); !why.empty()) {
    throw_config_error(setting + " does not go with this run", why, "set it to auto or 1");
  }
  const std::int64_t num_heads = kv_heads_of_rank(config);
  if (num_heads % groups != 0) {
    throw_config_error(setting + " does not divide the key/value heads of a rank", fmt::format("it has {}", num_heads),
                       "set a divisor of it, or auto");
  }
  if (may_exchange(config, groups)) return;
  throw_config_error(
      setting + " leaves groups whose heads the ranks of sp cannot exchange",
      fmt::format("{} query heads for {} ranks", q_heads_of_rank(config) / groups, num_exchanging(config.parallel)),
      fmt::format("set it to {} or auto, or parallel.sp_method to ring", most_head_groups(config)));
}

}  // namespace sft::config
