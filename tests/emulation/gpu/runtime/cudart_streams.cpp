// SPDX-License-Identifier: Apache-2.0
// The CUDA runtime's calls about streams, events and launches.
#include <cuda_runtime_api.h>

#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>

#include "runtime/device_properties.hpp"
#include "runtime/errors.hpp"
#include "runtime/host_counts.hpp"
#include "runtime/kernel_fault.hpp"
#include "runtime/launch_queue.hpp"
#include "runtime/scheduler.hpp"
#include "runtime/state.hpp"
#include "runtime/stream_queue.hpp"

namespace sft::emulation {

namespace {

double milliseconds() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double, std::milli>(now).count();
}

/// Why CUDA would refuse the launch; empty when it would not.
std::string problem_of(const KernelLaunch& launch) {
  const auto is_zero = [](const dim3& shape) { return shape.x == 0 || shape.y == 0 || shape.z == 0; };
  if (is_zero(launch.grid) || is_zero(launch.block)) return "a grid or block of size 0";
  if (launch.grid.x > 0x7fffffffU || launch.grid.y > 65535 || launch.grid.z > 65535) return "too large a grid";
  const auto threads = static_cast<unsigned long long>(launch.block.x) * launch.block.y * launch.block.z;
  if (threads > max_threads_per_block || launch.block.z > 64) {
    return std::to_string(threads) + " threads a block";
  }
  if (launch.shared_bytes > max_shared_bytes_per_block) {
    return std::to_string(launch.shared_bytes) + " bytes of shared memory";
  }
  return {};
}

}  // namespace

void enqueue_kernel(const KernelLaunch& launch, void (*destroy)(void* arguments), cudaStream_t stream) {
  const Lock lock(mutex());
  const std::shared_ptr<void> arguments(const_cast<void*>(launch.arguments), destroy);
  const std::string name = std::string("kernel ") + launch.name;
  CUstream_st& queue = stream_of(stream, name.c_str());
  const bool is_of_current = queue.device == current_device();
  if (!is_of_current) fault(name + " was launched on a stream of another device than the current one");
  std::string problem = problem_of(launch);
  if (const cudaError_t code = result(cudaSuccess); code != cudaSuccess) problem = cudaGetErrorString(code);
  if (!problem.empty()) throw std::runtime_error(name + " was not launched (" + problem + ")");
  if (queue.capture == nullptr) ++counts().launches;
  push(queue, name, [launch, arguments] {
    if (!is_faulty(launch.name)) run_grid(launch);
    return true;
  });
}

}  // namespace sft::emulation

using namespace sft::emulation;

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  const Lock lock(mutex());
  if (flags != cudaStreamDefault && flags != cudaStreamNonBlocking) return result(cudaErrorInvalidValue);
  *stream = make_stream(flags, priority);
  return result(cudaSuccess);
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return cudaStreamCreateWithPriority(stream, flags, 0);
}
cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return cudaStreamCreateWithPriority(stream, cudaStreamDefault, 0);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const Lock lock(mutex());
  if (stream == nullptr) return result(cudaErrorInvalidResourceHandle);
  CUstream_st& destroyed = stream_of(stream, "cudaStreamDestroy");
  require_not_captured(destroyed, "cudaStreamDestroy");
  destroyed.is_destroyed = true;  // what is queued still runs
  return result(cudaSuccess);
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return result(cudaSuccess);
}
cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority) {
  const Lock lock(mutex());
  *priority = stream_of(stream, "cudaStreamGetPriority").priority;
  return result(cudaSuccess);
}
cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned* flags) {
  const Lock lock(mutex());
  *flags = stream_of(stream, "cudaStreamGetFlags").flags;
  return result(cudaSuccess);
}
cudaError_t cudaStreamGetDevice(cudaStream_t stream, int* device) {
  const Lock lock(mutex());
  *device = stream_of(stream, "cudaStreamGetDevice").device;
  return result(cudaSuccess);
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  const Lock lock(mutex());
  const bool is_captured = stream_of(stream, "cudaStreamIsCapturing").capture != nullptr;
  *status = is_captured ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return result(cudaSuccess);
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  const Lock lock(mutex());
  ++counts().synchronizations;
  CUstream_st& awaited = stream_of(stream, "cudaStreamSynchronize");
  require_not_captured(awaited, "cudaStreamSynchronize");
  finish(position_of(awaited));
  return result(cudaSuccess);
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  const Lock lock(mutex());
  CUstream_st& asked = stream_of(stream, "cudaStreamQuery");
  require_not_captured(asked, "cudaStreamQuery");
  return result(query(position_of(asked)) ? cudaSuccess : cudaErrorNotReady);
}
cudaError_t cudaDeviceSynchronize() {
  const Lock lock(mutex());
  (void)stream_of(nullptr, "cudaDeviceSynchronize");
  ++counts().synchronizations;
  finish_device(current_device());
  return result(cudaSuccess);
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned /*flags*/) {
  const Lock lock(mutex());
  const CUevent_st& waited = event_of(event, "cudaStreamWaitEvent");
  CUstream_st& waiting = stream_of(stream, "cudaStreamWaitEvent");
  require_not_captured(waiting, "cudaStreamWaitEvent");
  wait(waiting, waited.position);  // nothing where it was never recorded
  return result(cudaSuccess);
}
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* argument) {
  const Lock lock(mutex());
  push(stream_of(stream, "cudaLaunchHostFunc"), "cudaLaunchHostFunc", [function, argument] {
    function(argument);
    return true;
  });
  return result(cudaSuccess);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  const Lock lock(mutex());
  *event = make_event(flags);
  return result(cudaSuccess);
}
cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, cudaEventDefault); }
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  const Lock lock(mutex());
  if (event == nullptr) return result(cudaErrorInvalidResourceHandle);
  event_of(event, "cudaEventDestroy").is_destroyed = true;
  return result(cudaSuccess);
}
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned /*flags*/) {
  const Lock lock(mutex());
  CUevent_st& recorded = event_of(event, "cudaEventRecord");
  CUstream_st& queue = stream_of(stream, "cudaEventRecord");
  require_not_captured(queue, "cudaEventRecord");
  if (recorded.device != queue.device) return result(cudaErrorInvalidResourceHandle);
  if ((recorded.flags & cudaEventDisableTiming) == 0) {
    push(queue, "cudaEventRecord", [&recorded] {
      recorded.time_ms = milliseconds();
      return true;
    });
  }
  recorded.is_recorded = true;
  recorded.position = position_of(queue);
  return result(cudaSuccess);
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return cudaEventRecordWithFlags(event, stream, cudaEventRecordDefault);
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  const Lock lock(mutex());
  ++counts().synchronizations;
  finish(event_of(event, "cudaEventSynchronize").position);
  return result(cudaSuccess);
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  const Lock lock(mutex());
  return result(query(event_of(event, "cudaEventQuery").position) ? cudaSuccess : cudaErrorNotReady);
}
cudaError_t cudaEventElapsedTime(float* elapsed_ms, cudaEvent_t start, cudaEvent_t end) {
  const Lock lock(mutex());
  const CUevent_st& first = event_of(start, "cudaEventElapsedTime");
  const CUevent_st& second = event_of(end, "cudaEventElapsedTime");
  const bool has_times = first.is_recorded && second.is_recorded && (first.flags & cudaEventDisableTiming) == 0 &&
                         (second.flags & cudaEventDisableTiming) == 0;
  if (!has_times) return result(cudaErrorInvalidResourceHandle);
  if (!is_finished(first.position) || !is_finished(second.position)) return result(cudaErrorNotReady);
  *elapsed_ms = static_cast<float>(second.time_ms - first.time_ms);
  return result(cudaSuccess);
}
