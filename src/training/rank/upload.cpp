// SPDX-License-Identifier: Apache-2.0
#include "sft/rank/upload.hpp"

#include <array>
#include <cstring>
#include <iterator>

#include "sft/core/ensure.hpp"

namespace sft::rank {

namespace {

model::Inputs take_inputs(device::Arena& arena, std::int64_t num_tokens, bool has_dropout) {
  model::Inputs inputs;
  inputs.tokens = take(arena, DType::int32, {num_tokens});
  inputs.positions = take(arena, DType::int32, {num_tokens});
  inputs.targets = take(arena, DType::int32, {num_tokens});
  inputs.loss_weights = take(arena, DType::float32, {num_tokens});
  if (has_dropout) inputs.dropout_seed = take(arena, DType::uint8, {sizeof(std::uint64_t)});
  return inputs;
}

}  // namespace

model::Inputs first_rows(const model::Inputs& all, std::int64_t num_tokens) {
  return {.tokens = all.tokens.rows(0, num_tokens),
          .positions = all.positions.rows(0, num_tokens),
          .targets = all.targets.rows(0, num_tokens),
          .loss_weights = all.loss_weights.rows(0, num_tokens),
          .dropout_seed = all.dropout_seed};
}

UploadBuffers take_upload_buffers(device::Arena& device_memory, device::Arena& pinned_memory, std::int64_t max_tokens,
                                  bool has_dropout) {
  UploadBuffers buffers;
  for (model::Inputs& pinned : buffers.pinned) pinned = take_inputs(pinned_memory, max_tokens, has_dropout);
  buffers.device = take_inputs(device_memory, max_tokens, has_dropout);
  return buffers;
}

Upload::Upload(device::Device& device, device::Stream& stream, const UploadBuffers& buffers)
    : device_(device), stream_(stream), buffers_(buffers), copied_{device.make_event(), device.make_event()} {}

model::Inputs Upload::put(const rows::MicroBatch& batch, std::optional<std::uint64_t> dropout_seed) {
  const auto num_tokens = std::ssize(batch.tokens);
  const std::int64_t num_own =
      batch.row_parts.empty() ? 0 : batch.row_parts.back().local + batch.row_parts.back().num_tokens;
  const model::Inputs pinned = first_rows(buffers_.pinned[next_], num_tokens);
  model::Inputs on_device = first_rows(buffers_.device, num_tokens);
  device::Event& copied = *copied_[next_];
  next_ = (next_ + 1) % buffers_.pinned.size();
  copied.synchronize();
  const auto copy = [&](const Tensor& destination, const Tensor& staged, const auto& values) {
    const std::size_t bytes = destination.size_bytes();
    SFT_ENSURE(values.size() * sizeof(values[0]) == bytes, "a token of a micro-batch has its labels");
    std::memcpy(staged.data, values.data(), bytes);
    device_.copy(destination.data, staged.data, bytes, stream_);
  };
  copy(on_device.tokens, pinned.tokens, batch.tokens);
  copy(on_device.positions, pinned.positions, batch.positions);
  copy(on_device.targets, pinned.targets, batch.targets);
  copy(on_device.loss_weights, pinned.loss_weights, batch.loss_weights);
  if (dropout_seed && !on_device.dropout_seed.empty()) {
    copy(on_device.dropout_seed, pinned.dropout_seed, std::array{*dropout_seed});
  } else {
    on_device.dropout_seed = {};
  }
  copied.record(stream_);
  on_device.num_padding = num_tokens - num_own;
  return on_device;
}

}  // namespace sft::rank
