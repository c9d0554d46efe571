// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which runs can let attention work on groups of heads one after the other (train.attention_head_groups). Pure.

#include <cstdint>
#include <string>

#include "sft/config/config.hpp"

namespace sft::config {

/// Key/value heads that a rank has, of those that tp cuts: at least one, as ranks share heads where there are fewer.
[[nodiscard]] std::int64_t kv_heads_of_rank(const Config& config);

/// The most groups that a rank's heads can be worked on in: each key/value head alone, unless ranks of sp exchange
/// query heads of which a group has to have as many for each. It is not asked whether there may be groups at all.
[[nodiscard]] std::int64_t most_head_groups(const Config& config);

/// Why a run's attention works on all heads at once, for people; empty where it may work on groups of them.
[[nodiscard]] std::string why_all_heads_at_once(const Config& config);

}  // namespace sft::config
