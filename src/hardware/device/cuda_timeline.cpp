// SPDX-License-Identifier: Apache-2.0
#include "cuda_timeline.hpp"

#include <cuda_profiler_api.h>
#include <nvtx3/nvToolsExt.h>

#include <cmath>

#include "cuda_stream.hpp"

namespace sft::device {

CudaTimeline::~CudaTimeline() {
  for (const Stamp& stamp : stamps_) cudaEventDestroy(stamp.event);
  for (const cudaEvent_t event : free_events_) cudaEventDestroy(event);
  if (origin_ != nullptr) cudaEventDestroy(origin_);
}

cudaEvent_t CudaTimeline::take_event() {
  cudaEvent_t event = nullptr;
  if (free_events_.empty()) {
    check_cuda(cudaEventCreateWithFlags(&event, cudaEventDefault), "cudaEventCreateWithFlags");
  } else {
    event = free_events_.back();
    free_events_.pop_back();
  }
  return event;
}

void CudaTimeline::on_start() {
  (void)cudaProfilerStart();  // no concern of the run when there is no profiler
  if (origin_ == nullptr) origin_ = take_event();
  check_cuda(cudaEventRecord(origin_, nullptr), "cudaEventRecord");  // on a stream that has no work
  check_cuda(cudaEventSynchronize(origin_), "cudaEventSynchronize");
  origin_ns_ = now_ns();
}

void CudaTimeline::on_stop() {
  (void)cudaProfilerStop();
  for (const Stamp& stamp : stamps_) {
    check_cuda(cudaEventSynchronize(stamp.event), "cudaEventSynchronize");
    float since_origin_ms = 0;
    check_cuda(cudaEventElapsedTime(&since_origin_ms, origin_, stamp.event), "cudaEventElapsedTime");
    set_time(stamp.id, stamp.edge, origin_ns_ + std::llround(1e6 * static_cast<double>(since_origin_ms)));
    free_events_.push_back(stamp.event);
  }
  stamps_.clear();
}

void CudaTimeline::stamp(Stream& stream, Id id, Edge edge) {
  const cudaEvent_t event = take_event();
  stamps_.push_back({id, edge, event});
  check_cuda(cudaEventRecord(event, native_stream(stream)), "cudaEventRecord");
}

void CudaTimeline::on_begin(const std::string& name) { nvtxRangePushA(name.c_str()); }

void CudaTimeline::on_end() { nvtxRangePop(); }

}  // namespace sft::device
