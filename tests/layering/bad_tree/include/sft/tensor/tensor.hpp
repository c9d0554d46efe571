// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "sft/core/error.hpp"
#include "sft/device/stream.hpp"  // refused

namespace sft {
struct Tensor {};
}  // namespace sft
