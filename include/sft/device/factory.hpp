// SPDX-License-Identifier: Apache-2.0
#pragma once
// The one place that knows which device kinds this program was built with.

#include <memory>
#include <string>

#include "sft/device/device.hpp"

namespace sft::device {

/// Whether this build contains `kind`.
[[nodiscard]] bool is_built(Kind kind);

/// Makes the device of this process, on a node whose cores `num_local_ranks` ranks share: for Kind::cuda number `gpu`
/// of the GPUs that this process sees, which `num_sharing` ranks share (machine::deal_gpus). Throws a configuration
/// error that says what to install when the build lacks `kind`.
[[nodiscard]] std::unique_ptr<Device> make_device(Kind kind, int gpu, int num_local_ranks, int num_sharing = 1);

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
