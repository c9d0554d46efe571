// SPDX-License-Identifier: Apache-2.0
#pragma once
// ops::Backend on host processors: every op runs at once, in vectorised loops and oneDNN products on OpenMP threads.

#include <memory>

#include "ops/cpu/isa.hpp"
#include "sft/ops/backend.hpp"
#include "sft/ops/factory.hpp"

namespace sft::ops::cpu {

/// Ops queued on `stream` of `device` with the kernels of `isa`. Results do not depend on the number of threads, but
/// for those of matrix products. After each op that may take long it lets the device's other streams progress.
[[nodiscard]] std::unique_ptr<Backend> make_backend(device::Device& device, device::Stream& stream, Isa isa);

}  // namespace sft::ops::cpu
