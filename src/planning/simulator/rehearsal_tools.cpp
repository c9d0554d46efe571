// SPDX-License-Identifier: Apache-2.0
#include "sft/simulator/rehearsal_tools.hpp"

#include <utility>
#include <vector>

#include "sft/ops/attention_graphs.hpp"
#include "sft/ops/factory.hpp"
#include "sft/ops/null_backend.hpp"
#include "sft/simulator/clocked_backend.hpp"
#include "sft/transfer/host_mover.hpp"
#include "simulator/clocked_file_mover.hpp"

namespace sft::simulator {

namespace {

std::unique_ptr<ops::Backend> make_ops_of(Work work, device::Device& device, device::Stream& stream,
                                          ops::AttentionKernels attention) {
  switch (work) {
    case Work::counted:
      return std::make_unique<ops::NullBackend>(stream);
    case Work::noted:
      return ops::make_product_counter(stream);
    case Work::listed:
      return ops::make_product_list(stream);
    case Work::attention:
      return ops::make_attention_list(stream, attention);
    case Work::clocked:
      break;
  }
  return std::make_unique<ClockedBackend>(dynamic_cast<ClockedDevice&>(device), stream, attention);
}

/// Moves nothing: where memory is only counted.
class NullMover final : public transfer::Mover {
 public:
  void read(std::size_t /*lane*/, const std::vector<transfer::Move>& /*moves*/) override {}
  void write(std::size_t /*lane*/, const std::vector<transfer::Move>& /*moves*/) override {}
  void finish(std::size_t /*lane*/, device::Stream& /*stream*/) override {}
  void reads_follow(std::size_t /*lane*/) override {}
  void reads_follow(device::Event& /*event*/) override {}
  void reads_follow_ops() override {}
  void ops_follow_writes() override {}
  void drain() noexcept override {}
};

}  // namespace

std::unique_ptr<ops::Backend> RehearsalTools::make_ops(device::Device& device, device::Stream& compute,
                                                       ops::AttentionKernels attention, bool repeats_launches) const {
  std::unique_ptr<ops::Backend> ops = make_ops_of(work_, device, compute, attention);
  const bool repeats = repeats_launches && work_ == Work::clocked;
  return repeats ? ops::make_repeated_backend(std::move(ops)) : std::move(ops);
}

std::unique_ptr<ops::Backend> RehearsalTools::make_step_ops(device::Device& device, device::Stream& stream) const {
  return make_ops_of(work_, device, stream, ops::AttentionKernels::own);
}

std::unique_ptr<transfer::Mover> RehearsalTools::make_mover(const model::DecoderBuffers& buffers,
                                                            const std::string& /*folder*/, device::Device& device,
                                                            device::Stream& compute) const {
  using Location = model::ActivationPolicy::Location;
  const Location location = buffers.policy().location;
  const std::size_t num_blocks = buffers.num_offloaded();
  if (work_ == Work::clocked && location == Location::file_behind_host) {
    return std::make_unique<ClockedFileMover>(num_blocks, dynamic_cast<ClockedDevice&>(device), compute);
  }
  if (work_ == Work::clocked && location == Location::host) {
    return std::make_unique<transfer::HostMover>(buffers.host_places, num_blocks, device, compute, "activations",
                                                 device::Priority::communication);
  }
  return std::make_unique<NullMover>();
}

}  // namespace sft::simulator
