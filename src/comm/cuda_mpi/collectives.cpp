// SPDX-License-Identifier: Apache-2.0
#include "collectives.hpp"

#include "comm/messages.hpp"
#include "gpu_work.hpp"
#include "sft/device/factory.hpp"

namespace sft::comm {

CudaMpiCollectives::CudaMpiCollectives(device::Device& gpu, const std::vector<TensorGroup>& groups, double timeout_s)
    : gpu_(gpu),
      groups_(groups),
      watchdog_(names_of(groups), timeout_s, {{}, end_at_standstill}),
      host_(device::make_host_device()),
      host_stream_(host_->make_stream()),
      mpi_(*host_, make_gpu_work(gpu)) {}

template <class Collective>
void CudaMpiCollectives::run(const Group& group, const char* name, std::size_t bytes, device::Stream& stream,
                             const Collective& collective) {
  const WatchedCall call(watchdog_, groups_, group, name, bytes);
  stream.synchronize();
  collective();
  host_stream_->synchronize();
}

void CudaMpiCollectives::all_reduce(const Group& group, Tensor inout, ReduceOp op, device::Stream& stream) {
  run(group, "all_reduce", inout.size_bytes(), stream, [&] { mpi_.all_reduce(group, inout, op, *host_stream_); });
}

void CudaMpiCollectives::all_gather(const Group& group, Tensor full, ConstTensor local, device::Stream& stream) {
  run(group, "all_gather", full.size_bytes(), stream, [&] { mpi_.all_gather(group, full, local, *host_stream_); });
}

void CudaMpiCollectives::reduce_scatter_add(const Group& group, Tensor local, Tensor full, device::Stream& stream) {
  run(group, "reduce_scatter_add", full.size_bytes(), stream,
      [&] { mpi_.reduce_scatter_add(group, local, full, *host_stream_); });
}

void CudaMpiCollectives::reduce_scatter(const Group& group, Tensor inout, device::Stream& stream) {
  run(group, "reduce_scatter", inout.size_bytes(), stream, [&] { mpi_.reduce_scatter(group, inout, *host_stream_); });
}

void CudaMpiCollectives::exchange(const Group& group, Tensor send, int to, Tensor receive, int from,
                                  device::Stream& stream) {
  run(group, "exchange", send.size_bytes() + receive.size_bytes(), stream,
      [&] { mpi_.exchange(group, send, to, receive, from, *host_stream_); });
}

void CudaMpiCollectives::exchange_all(const Group& group, const std::vector<Message>& sends,
                                      const std::vector<Message>& receives, device::Stream& stream) {
  run(group, "exchange_all", bytes_of(sends) + bytes_of(receives), stream,
      [&] { mpi_.exchange_all(group, sends, receives, *host_stream_); });
}

device::Device::Block CudaMpiCollectives::allocate_shared(const Group& /*group*/, MemoryUse /*use*/,
                                                          std::size_t /*bytes*/) {
  return {};
}

device::Device::Block CudaMpiCollectives::allocate_own(const Group& /*group*/, std::size_t bytes) {
  return gpu_.allocate(bytes);
}

void CudaMpiCollectives::set_staging(const StagingMemory& staging) { mpi_.set_staging(staging); }

}  // namespace sft::comm
