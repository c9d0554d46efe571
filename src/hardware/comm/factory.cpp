// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "comm/agreement.hpp"
#include "comm/gpu/make_collectives.hpp"
#include "host/collectives.hpp"
#include "mpi/collectives.hpp"
#include "sft/device/timeline.hpp"

namespace sft::comm {

namespace {

/// What all collectives have in common. Calls are refused inside the work of Group::agree and where their tensors do
/// not fit (require_valid) or their group was not given, and are ranges of a timeline, unless the group is this rank
/// alone, on the stream of each call: "fsdp all_gather". On the CPU a range lasts from the call, or from the end of the
/// stream's earlier work, until this rank sees that it is complete.
class GuardedCollectives final : public Collectives {
 public:
  /// `groups`: all that calls may be over; the CPU's direct messages may be over others, too.
  GuardedCollectives(device::Timeline& timeline, const std::vector<TensorGroup>& groups, bool may_be_others,
                     std::unique_ptr<Collectives> inner)
      : timeline_(timeline), groups_(groups), may_be_others_(may_be_others), inner_(std::move(inner)) {}

  void run(const Group& group, const Call& call, device::Stream& stream) override {
    refuse_inside_agree(group, name_of(call));
    require_valid(call, group);
    require_known(group);
    if (!timeline_.is_on() || group.size() == 1) return inner_->run(group, call, stream);
    const device::RangeLabel label{
        .category = "collective", .what = name_of(call), .of = group.name(), .bytes = bytes_of(call)};
    device::timed(timeline_, stream, label, [&] { inner_->run(group, call, stream); });
  }
  [[nodiscard]] device::Device::Block allocate_shared(const Group& group, MemoryUse use, std::size_t bytes) override {
    refuse_inside_agree(group, "allocate_shared");
    return inner_->allocate_shared(group, use, bytes);
  }
  [[nodiscard]] device::Device::Block allocate_own(const Group& group, std::size_t bytes) override {
    return inner_->allocate_own(group, bytes);
  }
  void set_staging(const StagingMemory& staging) override { inner_->set_staging(staging); }

 private:
  void require_known(const Group& group) const {
    if (may_be_others_ || group.size() == 1) return;
    if (std::ranges::any_of(groups_, [&](const TensorGroup& known) { return known.group == group; })) return;
    throw std::logic_error(fmt::format("group {} was not given to make_collectives", group.name()));
  }

  device::Timeline& timeline_;
  const std::vector<TensorGroup> groups_;
  const bool may_be_others_;
  std::unique_ptr<Collectives> inner_;
};

std::unique_ptr<Collectives> make_unguarded(device::Device& device, const std::vector<TensorGroup>& groups,
                                            const Transport& transport) {
  if (transport.way == Transport::Way::host_copy) {
    return std::make_unique<HostCollectives>(device, groups);
  }
  if (device.kind() == device::Kind::cpu) return std::make_unique<MpiCollectives>(device, make_host_work());
  return make_gpu_collectives(device, groups, transport);
}

}  // namespace

std::unique_ptr<Collectives> make_collectives(device::Device& device, const std::vector<TensorGroup>& groups,
                                              const Transport& transport) {
  for (const TensorGroup& of : groups) refuse_inside_agree(of.group, "make_collectives");
  const bool may_be_others = transport.way == Transport::Way::direct && device.kind() == device::Kind::cpu;
  return std::make_unique<GuardedCollectives>(device.timeline(), groups, may_be_others,
                                              make_unguarded(device, groups, transport));
}

}  // namespace sft::comm
