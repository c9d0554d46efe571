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

std::string why_all_heads_at_once(const Config& config) {
  const Lora& lora = config.lora;
  if (config.train.activation_checkpointing != ActivationCheckpointing::full) {
    return "queries, keys and values of all heads are kept without activation_checkpointing = full";
  }
  if (config.parallel.sp_size > 1) return "ranks exchange heads or keys of all of them where rows are cut over sp";
  if (config.train.fp8 != Fp8::none) return "scales of fp8 are those of whole products";
  if (config.model.qk_norm_all_heads) return "queries and keys are normed over all heads together";
  if (lora.use_peft && lora.lora_dropout > 0) return "the dropout of adapters is drawn for the columns of all heads";
  if (lora.use_peft && lora.use_dora) return "magnitudes of adapters scale whole matrices";
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
  if (num_heads % groups == 0) return;
  throw_config_error(setting + " does not divide the key/value heads of a rank", fmt::format("it has {}", num_heads),
                     "set a divisor of it, or auto");
}

}  // namespace sft::config
