// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "sft/config/config.hpp"
#include "sft/device/device.hpp"
#include "sft/mesh/layout.hpp"

namespace sft::bench {

/// The most layers, at most those of config.model, with which a model trains in what is free of the GPU `device`, on
/// rows of `length` tokens: by the plan of its memory. A configuration Error where one is too many, or `num_ranks` are
/// more than one.
[[nodiscard]] std::int64_t fitting_layers(config::Config config, std::int64_t length, const mesh::Layout& layout,
                                          device::Device& device, int num_ranks);

}  // namespace sft::bench
