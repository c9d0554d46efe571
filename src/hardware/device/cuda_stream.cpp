// SPDX-License-Identifier: Apache-2.0
#include "cuda_stream.hpp"

#include <nvtx3/nvToolsExtCudaRt.h>

#include <fmt/core.h>
#include <algorithm>
#include <string>

#include "cuda_graph.hpp"
#include "sft/core/activity.hpp"
#include "sft/core/error.hpp"
#include "sft/core/gpu_launches.hpp"
#include "sft/core/log.hpp"

namespace sft::device {

void check_cuda(cudaError_t code, const char* call) {
  if (code == cudaSuccess) return;
  throw_if_of_a_kernel(code, cudaGetErrorString(code));
  throw Error(ExitStatus::failure, fmt::format("{} failed on rank {}", call, log_rank()), cudaGetErrorString(code),
              "look for an earlier message of another rank, and check the GPU with nvidia-smi");
}

namespace {

/// Whether a query of CUDA's says that the work is finished.
bool is_finished(cudaError_t code, const char* query) {
  if (code == cudaErrorNotReady) {
    (void)cudaGetLastError();  // or the next check of a kernel launch would find it
    return false;
  }
  check_cuda(code, query);
  return true;
}

}  // namespace

CudaStream::CudaStream(WaitChecks& checks, Priority priority) : checks_(checks) {
  int least = 0, greatest = 0;  // the greatest priority is the lowest number
  check_cuda(cudaDeviceGetStreamPriorityRange(&least, &greatest), "cudaDeviceGetStreamPriorityRange");
  const int level = priority == Priority::communication ? greatest
                    : priority == Priority::compute     ? std::max(least - 1, greatest)
                                                        : least;
  check_cuda(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, level), "cudaStreamCreateWithPriority");
  checks_.add(this, [this] { look_at_marks(); });
}

CudaStream::~CudaStream() {
  checks_.remove(this);
  for (const Mark& mark : marks_) cudaEventDestroy(mark.event);
  for (const cudaEvent_t mark : unused_) cudaEventDestroy(mark);
  cudaStreamDestroy(stream_);
}

bool CudaStream::start_tape() {
  if (tape_ == nullptr) {
    tape_ = std::make_unique<LaunchTape>(std::make_unique<CudaGraphRecorder>(stream_, [this] { mark(); }),
                                         LaunchTape::Limits{});
  }
  return true;
}

void CudaStream::mark() {
  settle();
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  check_cuda(cudaStreamIsCapturing(stream_, &capture), "cudaStreamIsCapturing");
  if (capture != cudaStreamCaptureStatusNone) return;  // each launch of the graph is marked
  if (unused_.empty()) look_at_marks();
  cudaEvent_t mark = nullptr;
  if (unused_.empty()) {
    check_cuda(cudaEventCreateWithFlags(&mark, cudaEventDisableTiming), "cudaEventCreateWithFlags");
  } else {
    mark = unused_.back();
    unused_.pop_back();
  }
  marks_.push_back({mark, num_launches()});
  check_cuda(cudaEventRecord(mark, stream_), "cudaEventRecord");
}

void CudaStream::look_at_marks() {
  while (!marks_.empty() && is_finished(cudaEventQuery(marks_.front().event), "cudaEventQuery")) {
    note_progress();
    note_finished(stream_, marks_.front().launches);
    unused_.push_back(marks_.front().event);
    marks_.pop_front();
  }
}

void CudaStream::synchronize() {
  settle();
  const std::uint64_t launches = num_launches();
  checks_.wait_until([this] { return is_finished(cudaStreamQuery(stream_), "cudaStreamQuery"); });
  note_finished(stream_, launches);
}

void CudaStream::wait(Event& event) {
  auto& recorded = static_cast<CudaEvent&>(event);
  if (!recorded.known().tell(*this)) return;
  settle();
  check_cuda(cudaStreamWaitEvent(stream_, recorded.native(), 0), "cudaStreamWaitEvent");
}

void CudaStream::set_name(const std::string& name) {
  Stream::set_name(name);
  nvtxNameCudaStreamA(stream_, name.c_str());
}

CudaEvent::CudaEvent(const WaitChecks& checks) : checks_(checks) {
  check_cuda(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "cudaEventCreateWithFlags");
}

CudaEvent::~CudaEvent() { cudaEventDestroy(event_); }

void CudaEvent::record(Stream& stream) {
  stream_ = native_stream(stream);
  launches_ = num_launches();
  check_cuda(cudaEventRecord(event_, stream_), "cudaEventRecord");
  known_.record(stream);
}

void CudaEvent::synchronize() {
  checks_.wait_until([this] { return is_finished(cudaEventQuery(event_), "cudaEventQuery"); });
  note_finished(stream_, launches_);
}

}  // namespace sft::device
