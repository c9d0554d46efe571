// SPDX-License-Identifier: Apache-2.0
#pragma once
// Whether the work of a micro-batch is so little that a GPU waits for the host, which launches it.

#include "sft/config/config.hpp"
#include "sft/device/kind.hpp"
#include "sft/model/architecture.hpp"
#include "sft/model/context.hpp"

namespace sft::rank {

/// Whether what repeats of a micro-batch's work is queued by one launch, as [device] cuda_graphs says; auto: where a
/// GPU is done with a block of `sizes` sooner than the host has launched it one by one, by estimates of both, for the
/// largest block. Pure.
[[nodiscard]] bool repeats_launches(const config::Config& config, const model::DecoderParameters& parameters,
                                    const model::Sizes& sizes, device::Kind kind);

}  // namespace sft::rank
