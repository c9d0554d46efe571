// SPDX-License-Identifier: Apache-2.0
#include "sft/plan/workers.hpp"

#include "activation_file.hpp"
#include "sft/ops/factory.hpp"

namespace sft::plan {

namespace {

std::unique_ptr<device::Stream> make_stream(device::Device& device, const char* name, device::Priority priority) {
  std::unique_ptr<device::Stream> stream = device.make_stream(priority);
  stream->set_name(name);
  return stream;
}

/// Where activations that are not there are left.
class NullActivationStore final : public model::ActivationStore {
 public:
  void save(model::BlockIndex /*block*/, const std::vector<Tensor>& /*tensors*/) override {}
  void load(model::BlockIndex /*block*/, const std::vector<Tensor>& /*tensors*/) override {}
  void wait(model::BlockIndex /*block*/) override {}
};

std::unique_ptr<model::ActivationStore> make_activation_store(const model::DecoderBuffers& buffers,
                                                              const std::string& folder, device::Device& device,
                                                              device::Stream& compute, Work work) {
  if (buffers.num_offloaded() == 0) return nullptr;
  if (work == Work::counted) return std::make_unique<NullActivationStore>();
  if (buffers.policy().location == model::ActivationPolicy::Location::host) {
    return std::make_unique<model::HostActivationStore>(device, compute, buffers.host_places);
  }
  return std::make_unique<ActivationFile>(folder, buffers.num_offloaded(), buffers.offloaded_bytes(), device);
}

}  // namespace

Streams::Streams(device::Device& device)
    : compute(make_stream(device, "compute", device::Priority::compute)),
      comm(make_stream(device, "communication", device::Priority::communication)),
      ring(make_stream(device, "ring", device::Priority::communication)),
      tp(make_stream(device, "tp", device::Priority::communication)) {}

void Streams::drain() const noexcept {
  for (const auto* stream : {&tp, &comm, &ring, &compute}) (*stream)->drain();
}

UnitWorkers::UnitWorkers(const UnitMemory& memory, const mesh::Groups& groups, bool cuts_tokens, device::Device& device,
                         comm::Collectives& collectives, Work work)
    : streams(device),
      ops(work == Work::done ? ops::make_backend(device, *streams.compute) : ops::make_null_backend(*streams.compute)),
      tp(groups.tp, device, collectives, *streams.compute, *streams.tp, cuts_tokens),
      units(memory.parts, memory.buffers, memory.policy, memory.slots, groups, device, *ops, collectives,
            *streams.comm) {}

RankWorkers::RankWorkers(RankPlan& plan, const config::Config& config, const mesh::Groups& groups,
                         device::Device& device, comm::Collectives& collectives, Work work)
    : UnitWorkers({plan.parts, plan.unit_buffers, plan.policy, plan.slots}, groups, plan.sizes.token_slices > 1, device,
                  collectives, work),
      matrices(plan.matrix_assignment, plan.storage, groups, *ops, collectives),
      shard_reduction(groups, *ops, collectives),
      attention(plan.attention->make_attention(groups.sp, device, *ops, collectives, *streams.ring)),
      activation_store(
          make_activation_store(plan.decoder, config.train.offload_folder, device, *streams.compute, work)),
      decoder({config.model, plan.sizes, device, *ops, units, tp, *attention, plan.decoder.adapters},
              plan.architecture.parameters, plan.decoder, activation_store.get()) {
  ops->set_workspace(plan.ops_workspace);
  decoder.initialize();
}

}  // namespace sft::plan
