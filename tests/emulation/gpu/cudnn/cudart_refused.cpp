// SPDX-License-Identifier: Apache-2.0
// Functions of CUDA's runtime that the headers of cuDNN's frontend name for what attention does not use, graphs that it
// builds by itself and kernels of its own: calling one ends the program.

#include <cuda_runtime_api.h>

#include <string>

#include "runtime/stream_queue.hpp"

namespace {

[[noreturn]] void refuse(const char* name) { sft::emulation::fault(std::string(name) + " is not emulated"); }

}  // namespace

extern "C" {

#if CUDART_VERSION >= 13000
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t, cudaStreamCaptureStatus* status, unsigned long long*, cudaGraph_t*,
                                     const cudaGraphNode_t**, const cudaGraphEdgeData**, size_t*) {
#else
cudaError_t cudaStreamGetCaptureInfo_v2(cudaStream_t, cudaStreamCaptureStatus* status, unsigned long long*,
                                        cudaGraph_t*, const cudaGraphNode_t**, size_t*) {
#endif
  *status = cudaStreamCaptureStatusNone;
  return cudaSuccess;
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode*) {
  refuse("cudaThreadExchangeStreamCaptureMode");
}
cudaError_t cudaGraphRetainUserObject(cudaGraph_t, cudaUserObject_t, unsigned, unsigned) {
  refuse("cudaGraphRetainUserObject");
}
cudaError_t cudaUserObjectCreate(cudaUserObject_t*, void*, cudaHostFn_t, unsigned, unsigned) {
  refuse("cudaUserObjectCreate");
}
cudaError_t cudaUserObjectRelease(cudaUserObject_t, unsigned) { refuse("cudaUserObjectRelease"); }
// There is no driver below this runtime; the frontend then leaves the context of the thread alone.
cudaError_t cudaGetDriverEntryPointByVersion(const char*, void**, unsigned, unsigned long long,
                                             cudaDriverEntryPointQueryResult*) {
  return cudaErrorNotSupported;
}
cudaError_t cudaLaunchKernel(const void*, dim3, dim3, void**, size_t, cudaStream_t) { refuse("cudaLaunchKernel"); }
cudaError_t cudaKernelSetAttributeForDevice(cudaKernel_t, cudaFuncAttribute, int, int) {
  refuse("cudaKernelSetAttributeForDevice");
}
cudaError_t cudaLibraryGetKernel(cudaKernel_t*, cudaLibrary_t, const char*) { refuse("cudaLibraryGetKernel"); }
cudaError_t cudaLibraryLoadData(cudaLibrary_t*, const void*, cudaJitOption*, void**, unsigned, cudaLibraryOption*,
                                void**, unsigned) {
  refuse("cudaLibraryLoadData");
}
cudaError_t cudaLibraryUnload(cudaLibrary_t) { refuse("cudaLibraryUnload"); }

}  // extern "C"
