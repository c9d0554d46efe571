// SPDX-License-Identifier: Apache-2.0
#pragma once
// Checks of parts of a configuration, for validate(). They throw configuration Errors.

#include <cstdint>
#include <string>

#include "sft/config/config.hpp"

namespace sft::config {

/// The widest layer: far above any real model, so that parameters and activations are counted in 64 bits.
inline constexpr std::int64_t max_width = 1 << 18;

/// Refuses a value that stands alone, unless it `holds`: `name` is the full name of its key, `rule` what it must be. A
/// default that cannot be used means that the key has none.
void require(const Config& config, bool holds, const std::string& name, const std::string& rule);

/// The same for a size, which must be from 1 to `high`.
void require_size(const Config& config, std::int64_t value, const std::string& name, std::int64_t high);

/// Derives the sizes of the model that follow from others, and refuses a model that cannot be.
void check_model(Config& config);

/// Ranges of what [parallel] says.
void check_axes(const Config& config);

/// Resolves what is `auto` of the mesh, whose model and ranges are checked, and refuses one that does not fit
/// `world_size` ranks or the model.
void check_parallel(Config& config, int world_size);

/// Fills metric_for_best_model where another key needs one, and greater_is_better where there is a metric, both as
/// transformers' TrainingArguments does.
void derive_metric(Config& config);

/// Refuses evaluations without data, and best models and early stopping without the evaluations and checkpoints that
/// they need; the combinations are those that transformers refuses, and some that it takes without any effect. The
/// metric is derived.
void check_evaluation(const Config& config);

/// What [lora] says fits the model, whose sizes are derived.
void check_lora(const Config& config);

/// Matrices are kept in 4 bits where they can be: frozen, of a model that is read, their rows on every rank of tp whole
/// blocks. Sizes and mesh are derived.
void check_four_bits(const Config& config);

/// Refuses what the attention of [device] attention does not go with.
void check_attention(const Config& config);

/// Refuses what products in fp8 do not go with.
void check_fp8(const Config& config);

/// Refuses groups of heads that attention cannot work on one after the other.
void check_head_groups(const Config& config);

/// Keys of experts that fit one another and the model, whose sizes are derived.
void check_experts(const Config& config);

/// Keys of routers and of shared experts, in a configuration that check_experts() took.
void check_routers(const Config& config);

/// Limits of nan_policy and of the watchdog over the loss.
void check_steps_that_fail(const Config& config);

}  // namespace sft::config
