// SPDX-License-Identifier: Apache-2.0
#pragma once
// Recordings of launches as CUDA graphs: a chain of one stream, which other streams take no part in.

#include <cuda_runtime.h>

#include <functional>
#include <memory>
#include <utility>

#include "sft/device/launch_tape.hpp"

namespace sft::device {

/// Captures what is queued on a stream, which outlives it and what it records. The thread that records makes no call of
/// CUDA meanwhile but those that queue work; other threads may make any but those that wait for the stream.
class CudaGraphRecorder final : public Recorder {
 public:
  /// Each launch of a recording is followed by `mark`, which outlives the recordings' launches, too.
  CudaGraphRecorder(cudaStream_t stream, std::function<void()> mark) : stream_(stream), mark_(std::move(mark)) {}
  /// Null, with one warning of this rank, where CUDA refuses to capture one of these launches or to make a graph of
  /// them.
  [[nodiscard]] std::unique_ptr<Recording> record(std::size_t num_launches, const Launch& launches) override;

 private:
  cudaStream_t stream_;
  std::function<void()> mark_;
};

}  // namespace sft::device
