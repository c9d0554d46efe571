// SPDX-License-Identifier: Apache-2.0
#pragma once
// Ordinary memory of the node.

#include "sft/device/device.hpp"

namespace sft::device {

/// Pages that were never written to take no memory. Throws as Device::allocate.
[[nodiscard]] Device::Block allocate_host(std::size_t bytes);

}  // namespace sft::device
