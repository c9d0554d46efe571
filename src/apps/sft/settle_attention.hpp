// SPDX-License-Identifier: Apache-2.0
#pragma once
// Whose attention the GPUs of a run compute, before its memory is planned.

#include <cstdint>
#include <string>
#include <vector>

#include "sft/comm/group.hpp"
#include "sft/config/valid_config.hpp"
#include "sft/device/device.hpp"
#include "sft/ops/attention_trial.hpp"
#include "sft/ops/factory.hpp"

namespace sft::apps {

/// The configuration for this run. Where [device] attention is hopper or cudnn: with these, which every rank has tried
/// beside this program's kernels for all GPUs on sizes of this run, of `tokens` a micro-batch at most, or without them
/// where some rank's numbers differ or there is nothing for cuDNN to do; says which in a line. Throws the same
/// configuration Error on every rank where ranks compute on CPUs or one of them cannot use cuDNN. Collective over
/// `world`.
[[nodiscard]] config::ValidConfig settle_attention(const config::ValidConfig& config, std::int64_t tokens,
                                                   device::Device& device, const comm::Group& world);

/// What that tries: every kind of attention of the model. Pure.
[[nodiscard]] std::vector<ops::AttentionSizes> attention_trials(const config::Config& config, std::int64_t tokens,
                                                                const ops::AttentionLibrary& library);
/// Why nothing of it is for the library as it is on all ranks; empty: something may be. Pure.
[[nodiscard]] std::string why_no_library(const config::Config& config, const ops::AttentionLibrary& library);

}  // namespace sft::apps
