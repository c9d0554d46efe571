// SPDX-License-Identifier: Apache-2.0
#pragma once
// The way of micro-batches to the device. The host writes a batch into one of two pinned buffers and queues its copies;
// it waits only where a buffer's own last copies, those of two uploads ago, have not run yet. So the host is one
// micro-batch ahead of a GPU and never stops it.

#include <array>
#include <cstdint>
#include <memory>
#include <optional>

#include "sft/device/arena.hpp"
#include "sft/device/device.hpp"
#include "sft/model/context.hpp"
#include "sft/rows/batch.hpp"

namespace sft::rank {

/// The memory of an Upload.
struct UploadBuffers {
  std::array<model::Inputs, 2> pinned;  ///< used in turn
  model::Inputs device;
};

/// Takes buffers for micro-batches of up to `max_tokens` tokens, and of their seeds where something is dropped; call
/// with sizing arenas, then with real ones. Pure.
[[nodiscard]] UploadBuffers take_upload_buffers(device::Arena& device_memory, device::Arena& pinned_memory,
                                                std::int64_t max_tokens, bool has_dropout = false);

/// Views of what `num_tokens` tokens need, and the seed.
[[nodiscard]] model::Inputs first_rows(const model::Inputs& all, std::int64_t num_tokens);

class Upload {
 public:
  /// Copies are queued on `stream` of `device`. Both outlive it, and so does the memory of `buffers`, until the stream
  /// has passed the last copy.
  Upload(device::Device& device, device::Stream& stream, const UploadBuffers& buffers);

  /// Queues the copy of `batch`, which may change once the call returns. The inputs, on the device, have its number of
  /// tokens and are valid for work queued on the stream before the next put. Throws std::logic_error when the batch has
  /// more tokens than the buffers, or not as many labels as tokens. Without a dropout_seed nothing is dropped, nor is
  /// where buffers have no place for one.
  [[nodiscard]] model::Inputs put(const rows::MicroBatch& batch, std::optional<std::uint64_t> dropout_seed = {});

 private:
  device::Device& device_;
  device::Stream& stream_;
  UploadBuffers buffers_;
  std::array<std::unique_ptr<device::Event>, 2> copied_;  ///< per pinned buffer: its last copies
  std::size_t next_ = 0;
};

}  // namespace sft::rank
