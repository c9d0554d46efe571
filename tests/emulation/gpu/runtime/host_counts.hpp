// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/stream_queue.hpp"

namespace sft::emulation {

/// What host_counts() returns.
[[nodiscard]] HostCounts& counts();

}  // namespace sft::emulation
