// SPDX-License-Identifier: Apache-2.0
// The functions of cuDNN that sft and the headers of cuDNN's frontend call. Each goes on to the library itself, which
// is loaded at the first call: a program that links these needs no cuDNN until attention is asked of it.
#include <cudnn.h>

#include <fmt/core.h>
#include <string>

#include "sft/core/on_demand_library.hpp"

namespace {

sft::OnDemandLibrary& library() {
  static sft::OnDemandLibrary opened(
      "cuDNN", {fmt::format("libcudnn.so.{}", CUDNN_MAJOR), SFT_CUDNN_FILE},
      fmt::format("install cuDNN {} (Debian: libcudnn9-cuda-13 of NVIDIA; PyPI: nvidia-cudnn-cu13), add its folder to "
                  "LD_LIBRARY_PATH, or leave [device] attention out",
                  CUDNN_MAJOR));
  return opened;
}

}  // namespace

// The arguments of cuDNN's functions are handed on as they are.
#define SFT_FORWARD(result, name, parameters, arguments)                    \
  result name parameters {                                                  \
    static auto* const forward = library().function<decltype(name)>(#name); \
    return forward arguments;                                               \
  }

extern "C" {

SFT_FORWARD(size_t, cudnnGetVersion, (), ())
SFT_FORWARD(const char*, cudnnGetErrorString, (cudnnStatus_t status), (status))
SFT_FORWARD(void, cudnnGetLastErrorString, (char* text, size_t bytes), (text, bytes))
SFT_FORWARD(cudnnStatus_t, cudnnCreate, (cudnnHandle_t * handle), (handle))
SFT_FORWARD(cudnnStatus_t, cudnnDestroy, (cudnnHandle_t handle), (handle))
SFT_FORWARD(cudnnStatus_t, cudnnSetStream, (cudnnHandle_t handle, cudaStream_t stream), (handle, stream))
SFT_FORWARD(cudnnStatus_t, cudnnGetStream, (cudnnHandle_t handle, cudaStream_t* stream), (handle, stream))
SFT_FORWARD(cudnnStatus_t, cudnnBackendCreateDescriptor,
            (cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t* descriptor), (type, descriptor))
SFT_FORWARD(cudnnStatus_t, cudnnBackendDestroyDescriptor, (cudnnBackendDescriptor_t descriptor), (descriptor))
SFT_FORWARD(cudnnStatus_t, cudnnBackendSetAttribute,
            (cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
             int64_t count, const void* elements),
            (descriptor, name, type, count, elements))
SFT_FORWARD(cudnnStatus_t, cudnnBackendGetAttribute,
            (const cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
             cudnnBackendAttributeType_t type, int64_t room, int64_t* count, void* elements),
            (descriptor, name, type, room, count, elements))
SFT_FORWARD(cudnnStatus_t, cudnnBackendFinalize, (cudnnBackendDescriptor_t descriptor), (descriptor))
SFT_FORWARD(cudnnStatus_t, cudnnBackendExecute,
            (cudnnHandle_t handle, cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t variant_pack),
            (handle, plan, variant_pack))

}  // extern "C"
