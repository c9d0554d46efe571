// SPDX-License-Identifier: Apache-2.0
#include "sft/plan/workers.hpp"

#include <fmt/core.h>
#include <functional>
#include <span>
#include <vector>

#include "plan/clocked_file_mover.hpp"
#include "sft/core/activity.hpp"
#include "sft/core/log.hpp"
#include "sft/ops/attention_graphs.hpp"
#include "sft/ops/factory.hpp"
#include "sft/transfer/file_mover.hpp"
#include "sft/transfer/host_mover.hpp"
#include "sft/transfer/staged_file_mover.hpp"

namespace sft::plan {

namespace {

std::unique_ptr<device::Stream> make_stream(device::Device& device, const char* name, device::Priority priority) {
  std::unique_ptr<device::Stream> stream = device.make_stream(priority);
  stream->set_name(name);
  return stream;
}

std::unique_ptr<ops::Backend> make_ops(device::Device& device, device::Stream& compute, Work work,
                                       ops::AttentionKernels attention, const ops::MatmulAlgorithms* algorithms) {
  switch (work) {
    case Work::done:
      return ops::make_backend(device, compute, attention, algorithms);
    case Work::counted:
      return ops::make_null_backend(compute);
    case Work::noted:
      return ops::make_product_counter(compute);
    case Work::listed:
      return ops::make_product_list(compute);
    case Work::attention:
      return ops::make_attention_list(compute, attention);
    case Work::clocked:
      break;
  }
  return ops::make_clocked_backend(dynamic_cast<device::ClockedDevice&>(device), compute, attention);
}

std::unique_ptr<ops::Backend> make_step_ops(const RankPlan& plan, device::Device& device, device::Stream& stream,
                                            Work work) {
  if (!plan.ends_beside()) return nullptr;
  std::unique_ptr<ops::Backend> ops = work == Work::done
                                          ? ops::make_step_backend(device, stream)
                                          : make_ops(device, stream, work, ops::AttentionKernels::own, nullptr);
  ops->set_workspace(plan.step_workspace);
  return ops;
}

/// The same, whose launches are repeated where they come again.
std::unique_ptr<ops::Backend> make_repeating(std::unique_ptr<ops::Backend> ops, bool repeats_launches, Work work) {
  if (!repeats_launches || (work != Work::done && work != Work::clocked)) return ops;
  return ops::make_repeated_backend(std::move(ops));
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

void warn_of_memory(const io::TransferFile& file, const std::string& folder) {
  if (!file.is_memory()) return;
  log_warning(
      fmt::format("activations offloaded to `{}` stay in memory: that folder is a tmpfs; set "
                  "train.offload_folder to a folder on a disk",
                  folder));
}

/// What works for a GPU's file: a CPU's goes through the system's cache.
std::unique_ptr<transfer::Mover> make_file_mover(const model::DecoderBuffers& buffers, const std::string& folder,
                                                 device::Device& device, device::Stream& compute) {
  const std::size_t num_blocks = buffers.num_offloaded(), place_bytes = buffers.offloaded_bytes();
  const bool is_staged = !buffers.staging.empty();
  const transfer::FileMover::File file{
      .folder = folder,
      .use = {.what = "activations",
              .instead = is_staged ? "activation_offload_to = auto" : "activation_offload = false",
              .refused = ExitStatus::configuration,
              .failed = ExitStatus::failure},
      .cache = is_staged ? io::FileCache::bypassed : io::FileCache::used};
  if (is_staged) {
    auto mover = std::make_unique<transfer::StagedFileMover>(file, place_bytes, num_blocks, buffers.staging, device,
                                                             compute, "activations");
    warn_of_memory(mover->file(), folder);
    return mover;
  }
  auto mover = std::make_unique<transfer::FileMover>(file, std::vector<std::size_t>(num_blocks, place_bytes),
                                                     num_blocks, device, compute);
  warn_of_memory(mover->file(), folder);
  return mover;
}

/// A lane and a place for each block whose activations are offloaded: on GPUs in the node's memory or in a file behind
/// some of it, on CPUs, whose memory that is, in a file behind the system's cache.
std::unique_ptr<transfer::Mover> make_activation_mover(const model::DecoderBuffers& buffers, const std::string& folder,
                                                       device::Device& device, device::Stream& compute, Work work) {
  using Location = model::ActivationPolicy::Location;
  const Location location = buffers.policy().location;
  const std::size_t num_blocks = buffers.num_offloaded();
  if (num_blocks == 0) return nullptr;
  if (work == Work::clocked && location == Location::file_behind_host) {
    return std::make_unique<ClockedFileMover>(num_blocks, dynamic_cast<device::ClockedDevice&>(device), compute);
  }
  const bool is_on_host = location == Location::host;
  if (work != Work::done && (work != Work::clocked || !is_on_host)) return std::make_unique<NullMover>();
  if (is_on_host) {
    return std::make_unique<transfer::HostMover>(buffers.host_places, num_blocks, device, compute, "activations",
                                                 device::Priority::communication);
  }
  return make_file_mover(buffers, folder, device, compute);
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
                         device::Device& device, comm::Collectives& collectives, Work work,
                         ops::AttentionKernels attention, const ops::MatmulAlgorithms* algorithms,
                         bool repeats_launches)
    : streams(device),
      ops(make_repeating(make_ops(device, *streams.compute, work, attention, algorithms), repeats_launches, work)),
      tp(groups.tp, device, collectives, *streams.compute, *streams.tp, cuts_tokens, tp_wire, groups.kv_replicas),
      units(memory.parts, memory.buffers, memory.policy, memory.slots, groups, device, *ops, collectives, *streams.comm,
            *streams.gathers),
      experts(groups.ep, device, *ops, collectives, *streams.experts) {}

RankWorkers::RankWorkers(RankPlan& plan, const config::Config& config, const mesh::Groups& groups,
                         device::Device& device, comm::Collectives& collectives, Work work,
                         const ops::MatmulAlgorithms* algorithms)
    : UnitWorkers({plan.parts, plan.unit_buffers, plan.policy, plan.slots}, groups, plan.sizes.token_slices > 1,
                  plan.tp_wire, device, collectives, work, attention_kernels(config.device, config.model), algorithms,
                  plan.repeats_launches),
      step_ops(make_step_ops(plan, device, *streams.optimizer, work)),
      attention(plan.attention->make_attention(groups.sp, device, *ops, collectives, *streams.ring)),
      activations(make_activation_mover(plan.decoder, config.train.offload_folder, device, *streams.compute, work)),
      decoder({config.model, plan.sizes, device, *ops, units, tp, *attention, plan.decoder.adapters, experts,
               work == Work::done ? sum_over(groups.world) : nullptr,
               plan.decoder.fp8.is_used() ? &plan.decoder.fp8 : nullptr},
              plan.architecture->parameters, plan.decoder, activations.get()) {
  for (TrainedPart& part : plan.trained) {
    steps.emplace_back(part, groups, *ops, collectives);
    part.optimizer->use({steps.back().matrices, steps.back().reduction});
  }
  ops->set_workspace(plan.ops_workspace);
  decoder.initialize();
}

}  // namespace sft::plan
