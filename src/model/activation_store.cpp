// SPDX-License-Identifier: Apache-2.0
#include "sft/model/activation_store.hpp"

#include <utility>

#include "sft/core/ensure.hpp"

namespace sft::model {

std::size_t place_bytes(const std::vector<Tensor>& tensors) {
  std::size_t bytes = 0;
  for (const Tensor& tensor : tensors) bytes += tensor.size_bytes();
  return bytes;
}

HostActivationStore::HostActivationStore(device::Device& device, device::Stream& compute_stream,
                                         IndexedVector<BlockIndex, Tensor> places)
    : device_(device),
      compute_stream_(compute_stream),
      places_(std::move(places)),
      stream_(device.make_stream(device::Priority::communication)),
      compute_done_(device.make_event()) {
  for (int i = 0; i < places_.size(); ++i) done_.push_back(device.make_event());
}

HostActivationStore::~HostActivationStore() { stream_->drain(); }

template <class Copy>
void HostActivationStore::copy_each(BlockIndex block, const std::vector<Tensor>& tensors, const Copy& copy) {
  SFT_ENSURE(place_bytes(tensors) <= places_[block].size_bytes(), "a block's activations fit into their place");
  compute_done_->record(compute_stream_);
  stream_->wait(*compute_done_);
  auto* bytes = places_[block].as<std::byte>();
  for (const Tensor& tensor : tensors) {
    SFT_ENSURE(tensor.is_contiguous(), "activations are moved as a whole");
    copy(tensor, bytes);
    bytes += tensor.size_bytes();
  }
  done_[block]->record(*stream_);
}

void HostActivationStore::save(BlockIndex block, const std::vector<Tensor>& tensors) {
  copy_each(block, tensors, [&](const Tensor& tensor, std::byte* bytes) {
    device_.copy(bytes, tensor.data, tensor.size_bytes(), *stream_);
  });
}

void HostActivationStore::load(BlockIndex block, const std::vector<Tensor>& tensors) {
  copy_each(block, tensors, [&](const Tensor& tensor, const std::byte* bytes) {
    device_.copy(tensor.data, bytes, tensor.size_bytes(), *stream_);
  });
}

void HostActivationStore::wait(BlockIndex block) { compute_stream_.wait(*done_[block]); }

}  // namespace sft::model
