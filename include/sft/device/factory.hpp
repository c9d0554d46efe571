// SPDX-License-Identifier: Apache-2.0
#pragma once
// The one place that knows which device kinds this program was built with.

#include <memory>

#include "sft/device/device.hpp"

namespace sft::device {

/// Whether this build contains `kind`.
[[nodiscard]] bool is_built(Kind kind);

/// Makes the device of this process. `local_rank` picks the GPU; `num_local_ranks` shares the node's cores.
/// Throws a configuration error that says what to install or set when the build lacks `kind` or no device is there.
[[nodiscard]] std::unique_ptr<Device> make_device(Kind kind, int local_rank, int num_local_ranks);

/// A device that touches no memory, with streams on which nothing happens: for planning over sizing arenas.
[[nodiscard]] std::unique_ptr<Device> make_null_device();

}  // namespace sft::device
