// SPDX-License-Identifier: Apache-2.0
#pragma once
// Recordings of launches as CUDA graphs: a chain of one stream, which other streams take no part in.

#include <cuda_runtime.h>

#include <memory>

#include "sft/device/launch_tape.hpp"

namespace sft::device {

/// Captures what is queued on a stream, which outlives it and what it records. The thread that records makes no call of
/// CUDA meanwhile but those that queue work; other threads may make any but those that wait for the stream.
class CudaGraphRecorder final : public Recorder {
 public:
  explicit CudaGraphRecorder(cudaStream_t stream) : stream_(stream) {}
  /// Null, with one warning of this rank, where CUDA refuses to capture one of these launches or to make a graph of
  /// them.
  [[nodiscard]] std::unique_ptr<Recording> record(std::size_t num_launches, const Launch& launches) override;

 private:
  cudaStream_t stream_;
};

}  // namespace sft::device
