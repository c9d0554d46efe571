// SPDX-License-Identifier: Apache-2.0
#pragma once
// Streams and events of a GPU.

#include <cuda_runtime.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "sft/device/device.hpp"
#include "sft/device/known_streams.hpp"
#include "sft/device/launch_tape.hpp"

namespace sft::device {

/// Throws an Error naming `call`, CUDA's own text and the rank unless `code` is cudaSuccess; where a kernel that was
/// queued before broke off, that of throw_if_of_a_kernel.
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
  [[nodiscard]] void* native() const override {
    settle();
    return stream_;
  }
  bool start_tape() override;
  [[nodiscard]] LaunchTape* tape() const override { return tape_.get(); }
  void set_name(const std::string& name) override;

 private:
  /// Notes the progress of all marks that the GPU has passed.
  void look_at_marks();
  /// Before anything else is queued, or waited for.
  void settle() const {
    if (tape_ != nullptr) tape_->settle();
  }

  WaitChecks& checks_;
  cudaStream_t stream_ = nullptr;
  struct Mark {
    cudaEvent_t event;
    std::uint64_t launches;  ///< num_launches() before it
  };
  std::deque<Mark> marks_;           ///< those that the GPU has not passed, as far as is known
  std::vector<cudaEvent_t> unused_;  ///< events for further marks
  std::unique_ptr<LaunchTape> tape_;
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
  [[nodiscard]] KnownStreams& known() { return known_; }

 private:
  const WaitChecks& checks_;
  cudaEvent_t event_ = nullptr;
  cudaStream_t stream_ = nullptr;  ///< on which it was recorded last
  std::uint64_t launches_ = 0;     ///< num_launches() before that
  KnownStreams known_;
};

/// The CUDA handle of a stream that a CudaDevice made.
[[nodiscard]] inline cudaStream_t native_stream(const Stream& stream) {
  return static_cast<cudaStream_t>(stream.native());
}

}  // namespace sft::device
