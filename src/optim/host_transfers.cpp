// SPDX-License-Identifier: Apache-2.0
#include "host_transfers.hpp"

#include <utility>

namespace sft::optim {

HostTransfers::HostTransfers(const std::vector<StateArray>& arrays, std::vector<Tensor> state, std::size_t num_buffers,
                             device::Device& device, device::Stream& compute_stream)
    : arrays_(arrays),
      state_(std::move(state)),
      device_(device),
      compute_stream_(compute_stream),
      read_stream_(device.make_stream()),
      write_stream_(device.make_stream()),
      computed_(device.make_event()),
      all_written_(device.make_event()) {
  read_stream_->set_name("state in");
  write_stream_->set_name("state out");
  for (std::size_t buffer = 0; buffer < num_buffers; ++buffer) {
    buffers_.push_back({device.make_event(), device.make_event()});
  }
}

Tensor HostTransfers::stored(const Transfer& transfer) const {
  const parallel::ShardRange& window = arrays_[transfer.part].windows[transfer.window];
  return state_[transfer.part].rows(window.begin, window.count);
}

void HostTransfers::begin_step() {
  computed_->record(compute_stream_);
  read_stream_->wait(*computed_);
}

void HostTransfers::end_step() {
  all_written_->record(*write_stream_);
  compute_stream_.wait(*all_written_);
}

void HostTransfers::start_reading(std::size_t buffer, const std::vector<Transfer>& transfers) {
  for (const Transfer& transfer : transfers) {
    device_.copy(transfer.memory.data, stored(transfer).data, transfer.memory.size_bytes(), *read_stream_);
  }
  buffers_[buffer].read->record(*read_stream_);
}

void HostTransfers::finish_reading(std::size_t buffer) { compute_stream_.wait(*buffers_[buffer].read); }

void HostTransfers::start_writing(std::size_t buffer, const std::vector<Transfer>& transfers) {
  computed_->record(compute_stream_);
  write_stream_->wait(*computed_);
  for (const Transfer& transfer : transfers) {
    device_.copy(stored(transfer).data, transfer.memory.data, transfer.memory.size_bytes(), *write_stream_);
  }
  buffers_[buffer].written->record(*write_stream_);
}

void HostTransfers::finish_writing(std::size_t buffer) { read_stream_->wait(*buffers_[buffer].written); }

void HostTransfers::drain() noexcept {
  read_stream_->drain();
  write_stream_->drain();
}

}  // namespace sft::optim
