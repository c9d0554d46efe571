// SPDX-License-Identifier: Apache-2.0
#include "upload.hpp"

#include <cstring>

#include "sft/core/error.hpp"

namespace sft::train {

namespace {

model::Inputs take_inputs(device::Arena& arena, std::int64_t num_tokens) {
  model::Inputs inputs;
  inputs.tokens = take(arena, DType::int32, {num_tokens});
  inputs.positions = take(arena, DType::int32, {num_tokens});
  inputs.targets = take(arena, DType::int32, {num_tokens});
  inputs.weights = take(arena, DType::float32, {num_tokens});
  return inputs;
}

}  // namespace

UploadBuffers take_upload_buffers(device::Arena& device_memory, device::Arena& pinned_memory, std::int64_t num_tokens) {
  UploadBuffers buffers;
  for (model::Inputs& pinned : buffers.pinned) pinned = take_inputs(pinned_memory, num_tokens);
  buffers.device = take_inputs(device_memory, num_tokens);
  return buffers;
}

Upload::Upload(device::Device& device, device::Stream& stream, const UploadBuffers& buffers)
    : device_(device), stream_(stream), buffers_(buffers), copied_{device.make_event(), device.make_event()} {}

const model::Inputs& Upload::put(const data::MicroBatch& batch) {
  const model::Inputs& pinned = buffers_.pinned[next_];
  device::Event& copied = *copied_[next_];
  next_ = (next_ + 1) % buffers_.pinned.size();
  copied.synchronize();
  const auto copy = [&](const Tensor& on_device, const Tensor& staged, const auto& values) {
    const std::size_t bytes = on_device.size_bytes();
    ensure(values.size() * sizeof(values[0]) == bytes, "a micro-batch has the planned size");
    std::memcpy(staged.data, values.data(), bytes);
    device_.copy(on_device.data, staged.data, bytes, stream_);
  };
  copy(buffers_.device.tokens, pinned.tokens, batch.tokens);
  copy(buffers_.device.positions, pinned.positions, batch.positions);
  copy(buffers_.device.targets, pinned.targets, batch.targets);
  copy(buffers_.device.weights, pinned.weights, batch.weights);
  copied.record(stream_);
  return buffers_.device;
}

}  // namespace sft::train
