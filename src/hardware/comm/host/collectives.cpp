// SPDX-License-Identifier: Apache-2.0
#include "collectives.hpp"

#include <algorithm>
#include <utility>

#include "sft/core/cast.hpp"
#include "sft/core/ensure.hpp"
#include "sft/device/factory.hpp"

namespace sft::comm {

namespace {

std::vector<const Tensor*> messages_of(std::span<const Message> messages, int rank) {
  std::vector<const Tensor*> found;
  for (const Message& message : messages) {
    if (message.rank == rank) found.push_back(&message.tensor);
  }
  return found;
}

}  // namespace

/// A collective from its beginning to its end: the pinned memory is its own.
class HostCollectives::Copies {
 public:
  Copies(HostCollectives& collectives, device::Stream& stream) : collectives_(collectives), stream_(stream) {
    SFT_ENSURE(!collectives.pinned_.empty(), "set_staging() comes before the first collective");
    collectives.copied_->synchronize();
  }

  void copy(void* destination, const void* source, std::size_t bytes) {
    collectives_.device_.copy(destination, source, bytes, stream_);
  }
  /// All copies so far are done.
  void synchronize() { stream_.synchronize(); }
  /// Runs a collective of pinned memory to its end.
  template <class Collective>
  void on_host(const Collective& collective) {
    collective(*collectives_.on_host_, *collectives_.host_stream_);
    collectives_.host_stream_->synchronize();
  }
  /// What was queued last reads the pinned memory.
  void leave() { collectives_.copied_->record(stream_); }

 private:
  HostCollectives& collectives_;
  device::Stream& stream_;
};

HostCollectives::HostCollectives(device::Device& device, const std::vector<TensorGroup>& groups)
    : device_(device),
      host_(device::make_host_device()),
      host_stream_(host_->make_stream()),
      on_host_(make_collectives(*host_, groups)),
      copied_(device.make_event()) {}

void HostCollectives::set_staging(const StagingMemory& staging) {
  pinned_ = staging.host_copies;
  on_host_->set_staging(staging);
}

std::size_t HostCollectives::slot_bytes(int num_slots) const {
  constexpr std::size_t line_bytes = 64;
  const std::size_t lines = pinned_.size_bytes() / line_bytes / num_slots;
  SFT_ENSURE(lines > 0, "each rank of a group has a line of the pinned memory");
  return lines * line_bytes;
}

void HostCollectives::run(const Group& group, const Call& call, device::Stream& stream) {
  std::visit([&](const auto& of) { start(group, of, stream); }, call);
}

void HostCollectives::start(const Group& group, const AllReduce& call, device::Stream& stream) {
  const Tensor inout = call.inout;
  const ReduceOp op = call.op;
  if (group.size() == 1 || inout.empty()) return;
  Copies copies(*this, stream);
  // Rounds of equal length: a short one at the end would be summed in the order of small tensors.
  const bool is_rounded = !call.wire.empty();
  const std::size_t slot = slot_bytes(is_rounded ? 2 : 1);
  const std::size_t num_rounds = (inout.size_bytes() + slot - 1) / slot;
  const std::size_t round_bytes = round_up((inout.size_bytes() + num_rounds - 1) / num_rounds, std::size_t{64});
  for (std::size_t begin = 0; begin < inout.size_bytes(); begin += round_bytes) {
    const std::size_t bytes = std::min(round_bytes, inout.size_bytes() - begin);
    const Tensor copy(pinned(), inout.dtype, {static_cast<std::int64_t>(bytes / size_of(inout.dtype))});
    copies.copy(copy.data, inout.as<std::byte>() + begin, bytes);
    copies.synchronize();
    const Tensor wire = is_rounded ? Tensor(pinned() + slot, DType::bf16, {copy.num_elements()}) : Tensor();
    copies.on_host([&](Collectives& mpi, device::Stream& at) { mpi.all_reduce(group, copy, op, at, wire); });
    copies.copy(inout.as<std::byte>() + begin, copy.data, bytes);
  }
  copies.leave();
}

void HostCollectives::start(const Group& group, const AllGather& call, device::Stream& stream) {
  const Tensor full = call.full;
  const ConstTensor local = call.local;
  const std::size_t all_bytes = local.size_bytes();
  if (group.size() == 1) {
    if (full.data != local.data) device_.copy(full.data, local.data, all_bytes, stream);
    return;
  }
  Copies copies(*this, stream);
  const std::size_t slot = slot_bytes(group.size() + 1);
  for (std::size_t begin = 0; begin < all_bytes; begin += slot) {
    const std::size_t bytes = std::min(slot, all_bytes - begin);
    const auto count = static_cast<std::int64_t>(bytes / size_of(local.dtype));
    const Tensor local_copy(pinned(), local.dtype, {count});
    const Tensor full_copy(pinned() + slot, local.dtype, {count * group.size()});
    copies.copy(local_copy.data, local.as<std::byte>() + begin, bytes);
    copies.synchronize();
    copies.on_host([&](Collectives& mpi, device::Stream& at) { mpi.all_gather(group, full_copy, local_copy, at); });
    for (std::size_t rank = 0; std::cmp_less(rank, group.size()); ++rank) {
      copies.copy(full.as<std::byte>() + rank * all_bytes + begin, full_copy.as<std::byte>() + rank * bytes, bytes);
    }
  }
  copies.leave();
}

void HostCollectives::start(const Group& group, const ReduceScatterAdd& call, device::Stream& stream) {
  const Tensor local = call.local;
  const Tensor full = call.full;
  const bool is_rounded = !call.wire.empty();
  const std::size_t all_bytes = local.size_bytes();
  Copies copies(*this, stream);
  const std::size_t slot = slot_bytes((is_rounded ? 2 : 1) * group.size() + 1);
  for (std::size_t begin = 0; begin < all_bytes; begin += slot) {
    const std::size_t bytes = std::min(slot, all_bytes - begin);
    const auto count = static_cast<std::int64_t>(bytes / sizeof(float));
    const Tensor local_copy(pinned(), DType::float32, {count});
    const Tensor full_copy(pinned() + slot, DType::float32, {count * group.size()});
    copies.copy(local_copy.data, local.as<std::byte>() + begin, bytes);
    for (std::size_t rank = 0; std::cmp_less(rank, group.size()); ++rank) {
      copies.copy(full_copy.as<std::byte>() + rank * bytes, full.as<std::byte>() + rank * all_bytes + begin, bytes);
    }
    copies.synchronize();
    const Tensor wire =
        is_rounded ? Tensor(pinned() + (group.size() + 1) * slot, DType::bf16, {count * group.size()}) : Tensor();
    copies.on_host(
        [&](Collectives& mpi, device::Stream& at) { mpi.reduce_scatter_add(group, local_copy, full_copy, at, wire); });
    copies.copy(local.as<std::byte>() + begin, local_copy.data, bytes);
  }
  copies.leave();
}

void HostCollectives::start(const Group& group, const ReduceScatter& call, device::Stream& stream) {
  const Tensor inout = call.inout;
  if (group.size() == 1) return;
  Copies copies(*this, stream);
  const std::size_t all_bytes = inout.size_bytes() / group.size();
  const std::size_t own = group.rank();
  const bool is_rounded = !call.wire.empty();
  const std::size_t slot = slot_bytes((is_rounded ? 2 : 1) * group.size());
  for (std::size_t begin = 0; begin < all_bytes; begin += slot) {
    const std::size_t bytes = std::min(slot, all_bytes - begin);
    const auto count = static_cast<std::int64_t>(bytes / size_of(inout.dtype));
    const Tensor copy(pinned(), inout.dtype, {count * group.size()});
    for (std::size_t rank = 0; std::cmp_less(rank, group.size()); ++rank) {
      copies.copy(copy.as<std::byte>() + rank * bytes, inout.as<std::byte>() + rank * all_bytes + begin, bytes);
    }
    copies.synchronize();
    const Tensor wire =
        is_rounded ? Tensor(pinned() + group.size() * slot, DType::bf16, {count * group.size()}) : Tensor();
    copies.on_host([&](Collectives& mpi, device::Stream& at) { mpi.reduce_scatter(group, copy, at, wire); });
    copies.copy(inout.as<std::byte>() + own * all_bytes + begin, copy.as<std::byte>() + own * bytes, bytes);
  }
  copies.leave();
}

void HostCollectives::start(const Group& group, const Exchange& call, device::Stream& stream) {
  const Tensor send = call.send;
  const int to = call.to;
  const Tensor receive = call.receive;
  const int from = call.from;
  if (group.size() == 1) {
    if (!send.empty()) device_.copy(receive.data, send.data, send.size_bytes(), stream);
    return;
  }
  Copies copies(*this, stream);
  std::vector<Steps::Step> steps;
  append_rounds(steps, chunks_of(send), to, chunks_of(receive), from, stream);
  run_steps(group, "exchange", std::move(steps));
  copies.leave();
}

// Rank r talks to r + 1 and r - 1, then to r + 2 and r - 2, and so on. Of all ranks the one that is furthest behind
// always finds the one that it waits for at the same round, or past what it waits for: so they never wait in a circle.
void HostCollectives::start(const Group& group, const ExchangeAll& call, device::Stream& stream) {
  if (group.size() == 1) return;
  Copies copies(*this, stream);
  const auto chunks = [&](std::span<const Message> messages, int rank) {
    std::vector<Chunk> all;
    for (const Tensor* tensor : messages_of(messages, rank)) {
      const std::vector<Chunk> more = chunks_of(*tensor);
      all.insert(all.end(), more.begin(), more.end());
    }
    return all;
  };
  std::vector<Steps::Step> steps;
  for (int distance = 1; distance < group.size(); ++distance) {
    const int to = (group.rank() + distance) % group.size();
    const int from = (group.rank() - distance + group.size()) % group.size();
    append_rounds(steps, chunks(call.sends, to), to, chunks(call.receives, from), from, stream);
  }
  run_steps(group, "exchange_all", std::move(steps));
  copies.leave();
}

device::Device::Block HostCollectives::allocate_shared(const Group& /*group*/, MemoryUse /*use*/,
                                                       std::size_t /*bytes*/) {
  return {};
}

device::Device::Block HostCollectives::allocate_own(const Group& /*group*/, std::size_t bytes) {
  return device_.allocate(bytes);
}

std::vector<HostCollectives::Chunk> HostCollectives::chunks_of(const Tensor& message) const {
  const std::size_t slot = slot_bytes(2);
  std::vector<Chunk> chunks;
  for (std::size_t begin = 0; begin < message.size_bytes(); begin += slot) {
    chunks.push_back({message.as<std::byte>() + begin, std::min(slot, message.size_bytes() - begin)});
  }
  return chunks;
}

void HostCollectives::append_rounds(std::vector<Steps::Step>& steps, const std::vector<Chunk>& sends, int to,
                                    const std::vector<Chunk>& receives, int from, device::Stream& stream) const {
  std::byte* const outgoing = pinned();
  std::byte* const incoming = pinned() + slot_bytes(2);
  for (std::size_t i = 0; i < std::max(sends.size(), receives.size()); ++i) {
    const Chunk out = i < sends.size() ? sends[i] : Chunk{};
    const Chunk in = i < receives.size() ? receives[i] : Chunk{};
    steps.push_back([=, this, &stream](Transfers& transfers) {
      if (in.bytes > 0) transfers.receive(incoming, in.bytes, from);
      if (out.bytes == 0) return;
      device_.copy(outgoing, out.begin, out.bytes, stream);
      stream.synchronize();
      transfers.send(outgoing, out.bytes, to);
    });
    if (in.bytes == 0) continue;
    steps.push_back([=, this, &stream](Transfers&) {
      device_.copy(in.begin, incoming, in.bytes, stream);
      stream.synchronize();
    });
  }
}

void HostCollectives::run_steps(const Group& group, const char* name, std::vector<Steps::Step> steps) {
  host_stream_->push(std::make_unique<Steps>(group, name, std::move(steps)));
  host_stream_->synchronize();
}

}  // namespace sft::comm
