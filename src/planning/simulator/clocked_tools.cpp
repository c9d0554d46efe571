// SPDX-License-Identifier: Apache-2.0
#include "sft/simulator/clocked_tools.hpp"

#include <utility>

#include "sft/ops/factory.hpp"
#include "sft/simulator/clocked_backend.hpp"
#include "sft/transfer/host_mover.hpp"
#include "simulator/clocked_file_mover.hpp"

namespace sft::simulator {

std::unique_ptr<ops::Backend> ClockedTools::make_ops(device::Device& device, device::Stream& compute,
                                                     ops::AttentionKernels attention, bool repeats_launches) const {
  auto ops = std::make_unique<ClockedBackend>(dynamic_cast<ClockedDevice&>(device), compute, attention);
  if (!repeats_launches) return ops;
  return ops::make_repeated_backend(std::move(ops));
}

std::unique_ptr<transfer::Mover> ClockedTools::make_mover(const model::DecoderBuffers& buffers,
                                                          const std::string& folder, device::Device& device,
                                                          device::Stream& compute) const {
  using Location = model::ActivationPolicy::Location;
  const std::size_t num_blocks = buffers.num_offloaded();
  switch (buffers.policy().location) {
    case Location::file_behind_host:
      return std::make_unique<ClockedFileMover>(num_blocks, dynamic_cast<ClockedDevice&>(device), compute);
    case Location::host:
      return std::make_unique<transfer::HostMover>(buffers.host_places, num_blocks, device, compute, "activations",
                                                   device::Priority::communication);
    default:
      return rank::RehearsalTools::make_mover(buffers, folder, device, compute);
  }
}

}  // namespace sft::simulator
