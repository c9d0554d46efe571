// SPDX-License-Identifier: Apache-2.0
#pragma once
// The one place that knows which device kinds this program was built with.

#include <memory>
#include <string>

#include "sft/device/device.hpp"

namespace sft::device {

/// Whether this build contains `kind`.
[[nodiscard]] bool is_built(Kind kind);

/// What this process has of its node.
struct NodeShare {
  int num_local_ranks = 1;  ///< that share the node's cores
  int gpu = 0;              ///< number of its GPU among those that it sees
  int num_sharing = 1;      ///< ranks that share the GPU (machine::deal_gpus)
};

/// Makes the device of this process. Throws a configuration error that says what to install when the build lacks
/// `kind`.
[[nodiscard]] std::unique_ptr<Device> make_device(Kind kind, const NodeShare& share = {});

/// The host beside a GPU: the memory of the node, and streams for messages that the host waits for. Leaves the threads
/// of the process as they are.
[[nodiscard]] std::unique_ptr<Device> make_host_device();

/// The GPU that this process computes on, and what its maker promises.
struct OwnGpu {
  int index = 0;                       ///< in this process's order
  std::string uuid;                    ///< as in machine::Gpu
  double clock_hz = 0;                 ///< the highest; 0: unknown
  double memory_bytes_per_second = 0;  ///< read and written together; 0: unknown
};

/// The GPU of the thread that has called make_device for one; throws std::logic_error in a build without CUDA.
[[nodiscard]] OwnGpu own_gpu();

/// A device that touches no memory, with streams on which nothing happens: for planning over sizing arenas.
[[nodiscard]] std::unique_ptr<Device> make_null_device();

}  // namespace sft::device
