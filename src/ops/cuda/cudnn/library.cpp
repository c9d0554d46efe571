// SPDX-License-Identifier: Apache-2.0
#include <cudnn.h>
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

void require_version() {
  const Version found = version();
  if (found.number == 0) throw Refusal(found.problem);
  if (found.number >= oldest_version) return;
  throw Refusal(fmt::format("version {} is older than {}", found.number, oldest_version));
}

}  // namespace

std::string GraphShape::name() const {
  std::string text = fmt::format("{}-d{}-l{}-w{}-h{}-k{}-e{}-s{:a}-q{}-k{}-v{}-o{}{}",
                                 is_backward() ? "backward" : "forward", documents, longest, window, q_heads, kv_heads,
                                 head_dim, scale, q_row, k_row, v_row, out_row, float32_out ? "f" : "");
  if (is_rectangle()) text += fmt::format("-r{}", longest_keys);
  if (is_backward()) text += fmt::format("-do{}-dq{}-dk{}-dv{}-t{}", dout_row, dq_row, dk_row, dv_row, tokens);
  return text;
}

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
  gpu_ = fmt::format("sm{}-{}", compute_capability_, multiprocessors);
  cudnnHandle_t handle = nullptr;
  require(cudnnCreate(&handle), "cudnnCreate");
  handle_ = handle;
  const cudnnStatus_t status = cudnnSetStream(handle, stream);
  if (status == CUDNN_STATUS_SUCCESS) return;
  (void)cudnnDestroy(handle);
  require(status, "cudnnSetStream");
}

Library::Library(AbsentGpu gpu)
    : absent_(std::move(gpu)),
      compute_capability_(absent_->compute_capability),
      gpu_(fmt::format("sm{}", compute_capability_)) {
  require_version();
}

Library::~Library() {
  if (handle_ != nullptr) (void)cudnnDestroy(static_cast<cudnnHandle_t>(handle_));
}

std::string Library::name() const { return fmt::format("cudnn{}-{}", version().number, gpu_); }

}  // namespace sft::ops::cuda::cudnn
