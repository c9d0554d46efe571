#include "cuda_stream.hpp"

#include "cuda_check.hpp"

namespace sft::device {

CudaStream::CudaStream() {
  check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
}

CudaStream::~CudaStream() { cudaStreamDestroy(stream_); }

void CudaStream::synchronize() { check_cuda(cudaStreamSynchronize(stream_), "cudaStreamSynchronize"); }

void CudaStream::wait(Event& event) {
  check_cuda(cudaStreamWaitEvent(stream_, static_cast<CudaEvent&>(event).native(), 0), "cudaStreamWaitEvent");
}

CudaEvent::CudaEvent() {
  check_cuda(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "cudaEventCreateWithFlags");
}

CudaEvent::~CudaEvent() { cudaEventDestroy(event_); }

void CudaEvent::record(Stream& stream) {
  check_cuda(cudaEventRecord(event_, native_stream(stream)), "cudaEventRecord");
}

void CudaEvent::synchronize() { check_cuda(cudaEventSynchronize(event_), "cudaEventSynchronize"); }

}  // namespace sft::device
