// SPDX-License-Identifier: Apache-2.0
#include <cudnn.h>
#include <cudnn_frontend_version.h>
#include <fmt/format.h>

#include <exception>
#include <utility>

#include "ops/cuda/cudnn/graph.hpp"

namespace sft::ops::cuda::cudnn {

namespace {

void require(cudnnStatus_t status, const char* call) {
  if (status != CUDNN_STATUS_SUCCESS) throw Refusal(fmt::format("{}: {}", call, cudnnGetErrorString(status)));
}

void require(cudaError_t status, const char* call) {
  if (status != cudaSuccess) throw Refusal(fmt::format("{}: {}", call, cudaGetErrorString(status)));
}

int attribute_of(int device, cudaDeviceAttr attribute) {
  int value = 0;
  require(cudaDeviceGetAttribute(&value, attribute, device), "cudaDeviceGetAttribute");
  return value;
}

std::string name_of(int compute_capability, int multiprocessors) {
  return fmt::format("sm{}-{}", compute_capability, multiprocessors);
}

void require_version() {
  const Version found = version();
  if (found.number == 0) throw Refusal(found.problem);
  if (found.number >= oldest_version) return;
  throw Refusal(fmt::format("version {} is older than {}", found.number, oldest_version));
}

}  // namespace

Version version() {
  try {
    return {cudnnGetVersion(), {}};
  } catch (const std::exception& error) {  // it cannot be loaded
    return {0, error.what()};
  }
}

Library::Library(cudaStream_t stream) {
  require_version();
  int device = 0;
  require(cudaGetDevice(&device), "cudaGetDevice");
  const int major = attribute_of(device, cudaDevAttrComputeCapabilityMajor);
  const int minor = attribute_of(device, cudaDevAttrComputeCapabilityMinor);
  const int multiprocessors = attribute_of(device, cudaDevAttrMultiProcessorCount);
  compute_capability_ = 10 * major + minor;
  gpu_ = name_of(compute_capability_, multiprocessors);
  cudnnHandle_t handle = nullptr;
  require(cudnnCreate(&handle), "cudnnCreate");
  handle_ = handle;
  const cudnnStatus_t status = cudnnSetStream(handle, stream);
  if (status == CUDNN_STATUS_SUCCESS) return;
  (void)cudnnDestroy(handle);
  require(status, "cudnnSetStream");
}

Library::Library(PlannedGpu gpu)
    : absent_(std::move(gpu)),
      compute_capability_(absent_->compute_capability),
      gpu_(name_of(compute_capability_, absent_->multiprocessors)) {
  require_version();
}

Library::~Library() {
  if (handle_ != nullptr) (void)cudnnDestroy(static_cast<cudnnHandle_t>(handle_));
}

std::string Library::name() const {
  return fmt::format("cudnn{}-frontend{}-{}", version().number, CUDNN_FRONTEND_VERSION, gpu_);
}

}  // namespace sft::ops::cuda::cudnn
