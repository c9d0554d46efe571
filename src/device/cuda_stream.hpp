// SPDX-License-Identifier: Apache-2.0
#pragma once
// Streams and events of a GPU.

#include <cuda_runtime.h>

#include <deque>
#include <vector>

#include "sft/device/device.hpp"

namespace sft::device {

/// Throws an Error naming `call`, CUDA's own text and the rank unless `code` is cudaSuccess. Errors of earlier queued
/// work may show up here too.
void check_cuda(cudaError_t code, const char* call);

class CudaStream final : public Stream {
 public:
  /// Who waits for the stream asks `checks`, to which it adds a look at its marks.
  CudaStream(WaitChecks& checks, Priority priority);
  ~CudaStream() override;
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;

  void synchronize() override;
  void wait(Event& event) override;
  void poll() override {}  // a GPU progresses by itself
  void mark() override;
  [[nodiscard]] void* native() const override { return stream_; }
  void set_name(const std::string& name) override;

 private:
  /// Notes the progress of all marks that the GPU has passed.
  void look_at_marks();

  WaitChecks& checks_;
  cudaStream_t stream_ = nullptr;
  std::deque<cudaEvent_t> marks_;    ///< those that the GPU has not passed, as far as is known
  std::vector<cudaEvent_t> unused_;  ///< events for further marks
};

class CudaEvent final : public Event {
 public:
  explicit CudaEvent(const WaitChecks& checks);
  ~CudaEvent() override;
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;

  void record(Stream& stream) override;
  void synchronize() override;
  [[nodiscard]] cudaEvent_t native() const { return event_; }

 private:
  const WaitChecks& checks_;
  cudaEvent_t event_ = nullptr;
};

/// The CUDA handle of a stream that a CudaDevice made.
[[nodiscard]] inline cudaStream_t native_stream(const Stream& stream) {
  return static_cast<cudaStream_t>(stream.native());
}

}  // namespace sft::device
