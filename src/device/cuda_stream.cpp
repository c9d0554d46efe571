// SPDX-License-Identifier: Apache-2.0
#include "cuda_stream.hpp"

#include <nvtx3/nvToolsExtCudaRt.h>

#include <fmt/core.h>
#include <algorithm>
#include <string>

#include "cuda_graph.hpp"
#include "sft/core/activity.hpp"
#include "sft/core/error.hpp"
#include "sft/core/log.hpp"

namespace sft::device {

namespace {

/// Whether a kernel broke off. Every later call fails with the same words, so what a call says is not where it was.
bool is_of_a_kernel(cudaError_t code) {
  switch (code) {
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchFailure:
    case cudaErrorAssert:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorHardwareStackError:
      return true;
    default:
      return false;
  }
}

}  // namespace

void check_cuda(cudaError_t code, const char* call) {
  if (code == cudaSuccess) return;
  throw Error(ExitStatus::failure, fmt::format("{} failed on rank {}", call, log_rank()), cudaGetErrorString(code),
              is_of_a_kernel(code)
                  ? "a kernel before this call broke off: run again with CUDA_LAUNCH_BLOCKING=1, which "
                    "names it, and report it"
                  : "look for an earlier message of another rank, and check the GPU with nvidia-smi");
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
  for (const cudaEvent_t mark : marks_) cudaEventDestroy(mark);
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
  marks_.push_back(mark);
  check_cuda(cudaEventRecord(mark, stream_), "cudaEventRecord");
}

void CudaStream::look_at_marks() {
  while (!marks_.empty() && is_finished(cudaEventQuery(marks_.front()), "cudaEventQuery")) {
    note_progress();
    unused_.push_back(marks_.front());
    marks_.pop_front();
  }
}

void CudaStream::synchronize() {
  settle();
  checks_.wait_until([this] { return is_finished(cudaStreamQuery(stream_), "cudaStreamQuery"); });
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
  check_cuda(cudaEventRecord(event_, native_stream(stream)), "cudaEventRecord");
  known_.record(stream);
}

void CudaEvent::synchronize() {
  checks_.wait_until([this] { return is_finished(cudaEventQuery(event_), "cudaEventQuery"); });
}

}  // namespace sft::device
