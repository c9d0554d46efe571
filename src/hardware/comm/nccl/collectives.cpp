// SPDX-License-Identifier: Apache-2.0
#include "collectives.hpp"

#include <algorithm>
#include <memory>

#include "comm/kernels/reduce_parts.hpp"
#include "sft/core/ensure.hpp"

namespace sft::comm {

namespace {

cudaStream_t native_stream(const device::Stream& stream) { return static_cast<cudaStream_t>(stream.native()); }

ncclDataType_t nccl_type(DType dtype) {
  switch (dtype) {
    case DType::float32:
      return ncclFloat32;
    case DType::bf16:
      return ncclBfloat16;
    case DType::float64:
      return ncclFloat64;
    case DType::int32:
      return ncclInt32;
    case DType::uint8:
      return ncclUint8;
  }
  return ncclNumTypes;
}

std::size_t count_of(const ConstTensor& tensor) { return tensor.num_elements(); }

/// `wire` = the rounded numbers of `from`.
void round_into(const Tensor& wire, const Tensor& from, cudaStream_t stream) {
  round_to_bf16(wire.as<__nv_bfloat16>(), from.as<float>(), from.num_elements(), stream);
}

/// `to` = what arrived at `from` as bf16; with `adds`, added to it.
void widen(float* to, const __nv_bfloat16* from, std::int64_t num_elements, bool adds, cudaStream_t stream) {
  sum_bf16_parts(to, {.own = reinterpret_cast<const std::byte*>(from)}, num_elements, adds, stream);
}

}  // namespace

NcclCollectives::NcclCollectives(device::Device& device, const std::vector<TensorGroup>& groups)
    : device_(device), communicators_(groups, device.wait_checks()) {
  warm_up(groups);
}

void NcclCollectives::warm_up(const std::vector<TensorGroup>& groups) {
  int most_ranks = 0;
  for (const TensorGroup& group : groups) most_ranks = std::max(most_ranks, group.group.size());
  if (most_ranks == 0) return;
  const std::size_t bytes = 2 * most_ranks * sizeof(float);
  const device::Device::Block block = device_.allocate(bytes);
  const std::unique_ptr<device::Stream> stream = device_.make_stream(device::Priority::communication);
  device_.fill_zero(block.get(), bytes, *stream);
  for (const TensorGroup& of : groups) {
    const Group& group = of.group;
    const Tensor full(block.get(), DType::float32, {group.size()});
    const Tensor other(full.as<float>() + group.size(), DType::float32, {group.size()});
    start(group, AllGather{full, other.rows(0, 1)}, *stream);
    if (of.has_sums) {
      start(group, AllReduce{full, ReduceOp::sum}, *stream);
      start(group, ReduceScatterAdd{other.rows(0, 1), full}, *stream);
    }
    if (of.has_bf16_sums) {
      const Tensor wire(other.data, DType::bf16, {group.size()});
      start(group, AllReduce{full, ReduceOp::sum, wire}, *stream);
      start(group, ReduceScatter{full, wire}, *stream);
    }
    if (!of.has_exchanges) continue;
    std::vector<Message> sends, receives;
    for (int peer = 0; peer < group.size(); ++peer) {
      if (peer == group.rank()) continue;
      sends.push_back({full.rows(peer, 1), peer});
      receives.push_back({other.rows(peer, 1), peer});
    }
    start(group, ExchangeAll{sends, receives}, *stream);
  }
  stream->synchronize();
}

void NcclCollectives::run(const Group& group, const Call& call, device::Stream& stream) {
  std::visit([&](const auto& of) { start(group, of, stream); }, call);
}

void NcclCollectives::start(const Group& group, const AllReduce& call, device::Stream& stream) {
  const Tensor inout = call.inout;
  const ReduceOp op = call.op;
  if (group.size() == 1) return;
  const bool is_rounded = !call.wire.empty();
  const Tensor sent = is_rounded ? call.wire : inout;
  if (is_rounded) round_into(sent, inout, native_stream(stream));
  communicators_.of(group).run("ncclAllReduce", sent.size_bytes(), native_stream(stream), [&](ncclComm_t comm) {
    return ncclAllReduce(sent.data, sent.data, count_of(sent), nccl_type(sent.dtype),
                         op == ReduceOp::sum ? ncclSum : ncclMax, comm, native_stream(stream));
  });
  if (!is_rounded) return;
  widen(inout.as<float>(), sent.as<__nv_bfloat16>(), inout.num_elements(), false, native_stream(stream));
}

void NcclCollectives::start(const Group& group, const AllGather& call, device::Stream& stream) {
  const Tensor full = call.full;
  const ConstTensor local = call.local;
  if (group.size() == 1) {
    if (full.data != local.data) device_.copy(full.data, local.data, local.size_bytes(), stream);
    return;
  }
  communicators_.of(group).run("ncclAllGather", full.size_bytes(), native_stream(stream), [&](ncclComm_t comm) {
    return ncclAllGather(local.data, full.data, count_of(local), nccl_type(local.dtype), comm, native_stream(stream));
  });
}

void NcclCollectives::start(const Group& group, const ReduceScatterAdd& call, device::Stream& stream) {
  const Tensor local = call.local;
  const Tensor full = call.full;
  if (group.size() > 1 && !call.wire.empty()) {
    round_into(call.wire, full, native_stream(stream));
    const __nv_bfloat16* sums = reduce_scatter_in_place(group, call.wire, stream).as<__nv_bfloat16>();
    return widen(local.as<float>(), sums, local.num_elements(), true, native_stream(stream));
  }
  float* piece = full.as<float>() + group.rank() * count_of(local);
  if (group.size() > 1) (void)reduce_scatter_in_place(group, full, stream);
  const Contributions sum{.own = reinterpret_cast<const std::byte*>(piece)};
  add_parts(local.as<float>(), sum, local.num_elements(), native_stream(stream));
}

void NcclCollectives::start(const Group& group, const ReduceScatter& call, device::Stream& stream) {
  const Tensor inout = call.inout;
  if (group.size() == 1) return;
  if (call.wire.empty()) {
    (void)reduce_scatter_in_place(group, inout, stream);
    return;
  }
  round_into(call.wire, inout, native_stream(stream));
  const Tensor sums = reduce_scatter_in_place(group, call.wire, stream);
  widen(inout.as<float>() + group.rank() * sums.num_elements(), sums.as<__nv_bfloat16>(), sums.num_elements(), false,
        native_stream(stream));
}

Tensor NcclCollectives::reduce_scatter_in_place(const Group& group, const Tensor& all, device::Stream& stream) {
  const std::int64_t count = all.num_elements() / group.size();
  const Tensor flat(all.data, all.dtype, {all.num_elements()});
  const Tensor piece = flat.rows(group.rank() * count, count);
  communicators_.of(group).run("ncclReduceScatter", all.size_bytes(), native_stream(stream), [&](ncclComm_t comm) {
    return ncclReduceScatter(all.data, piece.data, count_of(piece), nccl_type(all.dtype), ncclSum, comm,
                             native_stream(stream));
  });
  return piece;
}

void NcclCollectives::start(const Group& group, const Exchange& call, device::Stream& stream) {
  const Tensor send = call.send;
  const int to = call.to;
  const Tensor receive = call.receive;
  const int from = call.from;
  if (group.size() == 1) {
    if (!send.empty()) device_.copy(receive.data, send.data, send.size_bytes(), stream);
    return;
  }
  const auto messages = [](const Tensor& tensor, int rank) {
    return tensor.empty() ? std::vector<Message>() : std::vector<Message>{{tensor, rank}};
  };
  send_and_receive(group, messages(send, to), messages(receive, from), stream);
}

void NcclCollectives::start(const Group& group, const ExchangeAll& call, device::Stream& stream) {
  if (group.size() > 1) send_and_receive(group, call.sends, call.receives, stream);
}

device::Device::Block NcclCollectives::allocate_shared(const Group& /*group*/, MemoryUse /*use*/,
                                                       std::size_t /*bytes*/) {
  return {};
}

device::Device::Block NcclCollectives::allocate_own(const Group& group, std::size_t bytes) {
  if (group.size() == 1 || bytes == 0) return device_.allocate(bytes);
  device::Device::Block block = communicators_.of(group).allocate(bytes);
  (void)device_.peak_bytes();  // the device has not seen this allocation
  return block;
}

void NcclCollectives::send_and_receive(const Group& group, std::span<const Message> sends,
                                       std::span<const Message> receives, device::Stream& stream) {
  if (sends.empty() && receives.empty()) return;
  const std::size_t bytes = bytes_of(ExchangeAll{sends, receives});
  communicators_.of(group).run("ncclSend and ncclRecv", bytes, native_stream(stream), [&](ncclComm_t comm) {
    ncclResult_t first_error = ncclGroupStart();
    const auto note = [&](ncclResult_t result) {
      if (first_error == ncclSuccess) first_error = result;
    };
    for (const Message& m : sends) {
      note(ncclSend(m.tensor.data, count_of(m.tensor), nccl_type(m.tensor.dtype), m.rank, comm, native_stream(stream)));
    }
    for (const Message& m : receives) {
      note(ncclRecv(m.tensor.data, count_of(m.tensor), nccl_type(m.tensor.dtype), m.rank, comm, native_stream(stream)));
    }
    note(ncclGroupEnd());
    return first_error;
  });
}

}  // namespace sft::comm
