// SPDX-License-Identifier: Apache-2.0
#include "sft/rank/workers.hpp"

#include <functional>
#include <span>
#include <vector>

#include "sft/core/activity.hpp"

namespace sft::rank {

namespace {

std::unique_ptr<device::Stream> make_stream(device::Device& device, const char* name, device::Priority priority) {
  std::unique_ptr<device::Stream> stream = device.make_stream(priority);
  stream->set_name(name);
  return stream;
}

/// Null where a step ends on the compute stream.
std::unique_ptr<ops::Backend> make_step_ops(const RankPlan& plan, device::Device& device, device::Stream& stream,
                                            const Tools& tools) {
  if (!plan.ends_beside()) return nullptr;
  std::unique_ptr<ops::Backend> ops = tools.make_step_ops(device, stream);
  ops->set_workspace(plan.step_workspace);
  return ops;
}

/// Null where no activations are offloaded.
std::unique_ptr<transfer::Mover> make_activation_mover(const model::DecoderBuffers& buffers, const std::string& folder,
                                                       device::Device& device, device::Stream& compute,
                                                       const Tools& tools) {
  return buffers.num_offloaded() == 0 ? nullptr : tools.make_mover(buffers, folder, device, compute);
}

std::function<void(std::span<double>)> sum_over(const comm::Group& world) {
  return [world](std::span<double> values) {
    const Activity adding(ActivityKind::works, "the choices of experts");
    world.sum(values);
  };
}

}  // namespace

Streams::Streams(device::Device& device)
    : compute(make_stream(device, "compute", device::Priority::compute)),
      comm(make_stream(device, "communication", device::Priority::communication)),
      gathers(make_stream(device, "gathers", device::Priority::communication)),
      ring(make_stream(device, "ring", device::Priority::communication)),
      tp(make_stream(device, "tp", device::Priority::communication)),
      experts(make_stream(device, "experts", device::Priority::communication)),
      optimizer(make_stream(device, "optimizer", device::Priority::background)) {}

void Streams::drain() const noexcept {
  for (const auto* stream : {&optimizer, &experts, &tp, &gathers, &comm, &ring, &compute}) (*stream)->drain();
}

UnitWorkers::UnitWorkers(const UnitMemory& memory, const mesh::Groups& groups, bool cuts_tokens, const Tensor& tp_wire,
                         device::Device& device, comm::Collectives& collectives, const Tools& tools,
                         ops::AttentionKernels attention, bool repeats_launches)
    : streams(device),
      ops(tools.make_ops(device, *streams.compute, attention, repeats_launches)),
      tp(groups.tp, device, collectives, *streams.compute, *streams.tp, cuts_tokens, tp_wire, groups.kv_replicas),
      units(memory.parts, memory.buffers, memory.policy, memory.slots, groups, device, *ops, collectives, *streams.comm,
            *streams.gathers),
      experts(groups.ep, device, *ops, collectives, *streams.experts) {}

RankWorkers::RankWorkers(RankPlan& plan, const config::Config& config, const mesh::Groups& groups,
                         device::Device& device, comm::Collectives& collectives, const Tools& tools)
    : UnitWorkers({plan.parts, plan.unit_buffers, plan.policy, plan.slots}, groups, plan.sizes.token_slices > 1,
                  plan.tp_wire, device, collectives, tools, attention_kernels(config.device, config.model),
                  plan.repeats_launches),
      step_ops(make_step_ops(plan, device, *streams.optimizer, tools)),
      attention(plan.attention->make_attention(groups.sp, device, *ops, collectives, *streams.ring)),
      activations(make_activation_mover(plan.decoder, config.train.offload_folder, device, *streams.compute, tools)),
      decoder({config.model, plan.sizes, device, *ops, units, tp, *attention, plan.decoder.adapters, experts,
               tools.has_other_ranks() ? sum_over(groups.world) : nullptr,
               plan.decoder.fp8.is_used() ? &plan.decoder.fp8 : nullptr},
              plan.architecture->parameters, plan.decoder, activations.get()) {
  for (TrainedPart& part : plan.trained) {
    steps.emplace_back(part, groups, *ops, collectives);
    part.optimizer->use({steps.back().matrices, steps.back().reduction});
  }
  ops->set_workspace(plan.ops_workspace);
  decoder.initialize();
}

}  // namespace sft::rank
