// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the ranks of a run compute on: all on CPUs, or each on a GPU.

#include <memory>

#include "sft/comm/collectives.hpp"
#include "sft/comm/session.hpp"
#include "sft/config/valid_config.hpp"
#include "sft/device/device.hpp"
#include "sft/machine/gpus.hpp"

namespace sft::train {

struct DeviceChoice {
  device::Kind kind = device::Kind::cpu;
  machine::DealtGpu gpu;  ///< of this rank, for Kind::cuda
};

/// What [device] backend asks for. `auto`: GPUs where every rank of the world can have one, CPUs where no node has
/// enough of them, which is warned of where there are some; nodes that differ in it are refused, and so are GPUs that
/// cannot be used because of their driver. Throws the same
/// configuration Error on every rank. Collective over the world.
[[nodiscard]] DeviceChoice choose_device(const config::Device& wanted, const comm::Session& session);

/// How many ranks there are, see a GPU that can run the kernels, are on a node where each rank can have one, and are on
/// one whose GPUs cannot be used.
struct GpuCounts {
  std::int64_t ranks = 0, seeing = 0, served = 0, broken = 0;
};
enum class Verdict {
  cpu,
  cpu_beside_gpus,  ///< GPUs are there, but nowhere enough
  cuda,
  refused  ///< not all ranks can have the GPU that is wanted
};
/// The rule of choose_device. Pure.
[[nodiscard]] Verdict judge(config::BackendChoice wanted, const GpuCounts& counts);

/// How tensors travel between ranks that compute on `kind`, as [device] comm asks for. Throws a configuration Error
/// where NCCL is asked for and the ranks compute on CPUs, or a CUDA-aware MPI between GPUs and there is none.
[[nodiscard]] comm::Transport transport_of(const config::Device& wanted, device::Kind kind);

/// Throws a configuration Error where the ranks compute on GPUs and the run asks for what these do not do: products in
/// fp8 that a GPU of this compute capability (0: it is not known) does not have; or parameters in the memory of the
/// nodes where there is nothing to move, for below stage 3 those that are computed with stay, and there are no master
/// weights. On CPUs all lies there anyway.
void require_fitting_device(const config::Config& config, device::Kind kind, int compute_capability = 0);

/// A rank's device, and how tensors travel between it and those of others.
struct OpenedDevice {
  std::unique_ptr<device::Device> device;
  comm::Transport transport;
};

/// Chooses the device of this rank and opens it, once it is known to do what the run asks for. Throws the same Error on
/// every rank. Collective over the world.
[[nodiscard]] OpenedDevice open_device(const config::ValidConfig& config, const comm::Session& session);

}  // namespace sft::train
