// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "comm/mpi/local_work.hpp"
#include "sft/device/device.hpp"

namespace sft::comm {

/// On the memory of `gpu`, which outlives it, on a stream of its own that the host waits for.
[[nodiscard]] std::unique_ptr<LocalWork> make_gpu_work(device::Device& gpu);

}  // namespace sft::comm
