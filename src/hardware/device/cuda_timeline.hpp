// SPDX-License-Identifier: Apache-2.0
#pragma once
// Ranges on the streams of a GPU, from CUDA events that are read when all is over; and the same for NVIDIA's profilers,
// as NVTX ranges between cudaProfilerStart and cudaProfilerStop.

#include <cuda_runtime.h>

#include <vector>

#include "sft/device/timeline.hpp"

namespace sft::device {

class CudaTimeline final : public Timeline {
 public:
  ~CudaTimeline() override;

 private:
  struct Stamp {
    Id id;
    Edge edge;
    cudaEvent_t event;
  };

  void stamp(Stream& stream, Id id, Edge edge) override;
  [[nodiscard]] bool is_queued() const override { return true; }
  void on_start() override;
  void on_stop() override;
  void on_begin(const std::string& name) override;
  void on_end() override;

  /// One that nobody uses any more, or a new one.
  [[nodiscard]] cudaEvent_t take_event();

  cudaEvent_t origin_ = nullptr;  ///< of what on_start recorded
  std::int64_t origin_ns_ = 0;    ///< when the host saw it finished
  std::vector<Stamp> stamps_;
  std::vector<cudaEvent_t> free_events_;
};

}  // namespace sft::device
