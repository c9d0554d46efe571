// SPDX-License-Identifier: Apache-2.0
// The CUDA runtime's calls that allocate and copy.
#include <cuda_runtime_api.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "runtime/device_properties.hpp"
#include "runtime/errors.hpp"
#include "runtime/host_counts.hpp"
#include "runtime/memory.hpp"
#include "runtime/scheduler.hpp"
#include "runtime/shadow.hpp"
#include "runtime/state.hpp"
#include "runtime/stream_queue.hpp"

namespace sft::emulation {

HostCounts& counts() {
  static HostCounts the_counts;
  return the_counts;
}
HostCounts host_counts() { return counts(); }

namespace {

enum class Place { device, pinned, pageable };

/// Where an operand of a copy lies. Ends the program when it is not all inside a live allocation.
Place place_of(const void* begin, std::size_t bytes, const char* call) {
  const Allocation* allocation = find_allocation(begin);
  if (allocation == nullptr) {
    if (is_gpu_address(begin)) fault(std::string(call) + " of " + describe_address(begin));
    return Place::pageable;
  }
  if (static_cast<const char*>(begin) + bytes > allocation->begin + allocation->bytes) {
    fault(std::string(call) + " of " + std::to_string(bytes) + " bytes from " + describe_address(begin) +
          " goes beyond its end");
  }
  return allocation->kind == MemoryKind::device ? Place::device : Place::pinned;
}

void require_kind(cudaMemcpyKind kind, Place destination, Place source, const char* call) {
  const bool to_device = destination == Place::device, from_device = source == Place::device;
  const bool is_right = kind == cudaMemcpyDefault || (kind == cudaMemcpyHostToDevice && to_device && !from_device) ||
                        (kind == cudaMemcpyDeviceToHost && !to_device && from_device) ||
                        (kind == cudaMemcpyDeviceToDevice && to_device && from_device) ||
                        (kind == cudaMemcpyHostToHost && !to_device && !from_device);
  if (!is_right) fault(std::string(call) + ": the kind of the copy is not that of its addresses");
}

bool overlap(const void* a, const void* b, std::size_t bytes) {
  const auto* const first = static_cast<const char*>(a);
  const auto* const second = static_cast<const char*>(b);
  return first < second + bytes && second < first + bytes;
}

void queue_copy(CUstream_st& stream, void* destination, Place to, const void* source, Place from, std::size_t bytes,
                const char* call) {
  // A graph would copy what the host's memory holds when it is launched.
  if (to == Place::pageable || from == Place::pageable) require_not_captured(stream, "a copy of pageable memory");
  std::shared_ptr<std::vector<char>> staged;
  if (from == Place::pageable) {  // staged by the call: the source may change when it returns
    const auto* const begin = static_cast<const char*>(source);
    staged = std::make_shared<std::vector<char>>(begin, begin + bytes);
  }
  push(stream, call, [=] {
    if (staged == nullptr) note_read(source, bytes);
    if (to != Place::pageable) note_write(destination, bytes);
    std::memcpy(destination, staged == nullptr ? source : staged->data(), bytes);
    return true;
  });
}

cudaError_t copy(void* destination, const void* source, std::size_t bytes, cudaMemcpyKind kind, CUstream_st& stream,
                 bool is_asynchronous, const char* call) {
  if (bytes == 0) return result(cudaSuccess);
  if (destination == nullptr || source == nullptr) return result(cudaErrorInvalidValue);
  const Place to = place_of(destination, bytes, call), from = place_of(source, bytes, call);
  require_kind(kind, to, from, call);
  if (overlap(destination, source, bytes)) fault(std::string(call) + " between regions that overlap");
  const bool is_pageable = to == Place::pageable || from == Place::pageable;
  if (is_asynchronous && is_pageable) ++counts().pageable_copies;
  queue_copy(stream, destination, to, source, from, bytes, call);
  if (!is_asynchronous || to == Place::pageable) {  // a copy to pageable memory is there when the call returns
    ++counts().synchronizations;
    finish(position_of(stream));
  }
  return result(cudaSuccess);
}

cudaError_t fill(void* begin, int value, std::size_t bytes, CUstream_st& stream, const char* call) {
  if (bytes == 0) return result(cudaSuccess);
  if (place_of(begin, bytes, call) == Place::pageable) return result(cudaErrorInvalidValue);
  push(stream, call, [=] {
    note_write(begin, bytes);
    std::memset(begin, value, bytes);
    return true;
  });
  return result(cudaSuccess);
}

/// Bytes that cudaHostRegister has pinned and that are not given back.
std::size_t registered_now = 0;

cudaError_t allocate_into(void** memory, MemoryKind kind, std::size_t bytes) {
  const Lock lock(mutex());
  require_chosen_device("cudaMalloc, or cudaMallocHost,");
  require_no_capture("cudaMalloc, or cudaMallocHost,");
  *memory = nullptr;
  if (bytes == 0) return result(cudaSuccess);
  *memory = allocate(kind, current_device(), bytes);
  return result(*memory == nullptr ? cudaErrorMemoryAllocation : cudaSuccess);
}

cudaError_t free_memory(void* memory, MemoryKind kind, const char* call) {
  const Lock lock(mutex());
  require_chosen_device(call);
  require_no_capture(call);
  if (memory == nullptr) return result(cudaSuccess);
  const Allocation* allocation = find_allocation(memory);
  const std::size_t bytes = allocation == nullptr ? 0 : allocation->bytes;
  if (!release(kind, memory)) {
    fault(std::string(call) + " of " + describe_address(memory) + ", which is not what it gives back");
  }
  forget_accesses(memory, bytes);
  return result(cudaSuccess);
}

}  // namespace

}  // namespace sft::emulation

using namespace sft::emulation;

cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  ++counts().device_allocations;
  return allocate_into(memory, MemoryKind::device, bytes);
}
cudaError_t cudaFree(void* memory) { return free_memory(memory, MemoryKind::device, "cudaFree"); }
cudaError_t cudaMallocHost(void** memory, std::size_t bytes) {
  return allocate_into(memory, MemoryKind::pinned, bytes);
}
cudaError_t cudaHostAlloc(void** memory, std::size_t bytes, unsigned /*flags*/) {
  return allocate_into(memory, MemoryKind::pinned, bytes);
}
cudaError_t cudaFreeHost(void* memory) { return free_memory(memory, MemoryKind::pinned, "cudaFreeHost"); }

cudaError_t cudaHostRegister(void* memory, std::size_t bytes, unsigned /*flags*/) {
  const Lock lock(mutex());
  if (memory == nullptr || bytes == 0) return result(cudaErrorInvalidValue);
  const char* most = std::getenv("SFT_EMULATED_PINNED_MIB");
  if (most != nullptr && registered_now + bytes > std::strtoull(most, nullptr, 10) << 20U) {
    return result(cudaErrorMemoryAllocation);
  }
  registered_now += bytes;
  return result(register_host(memory, bytes) ? cudaSuccess : cudaErrorHostMemoryAlreadyRegistered);
}
cudaError_t cudaHostUnregister(void* memory) {
  const Lock lock(mutex());
  if (const Allocation* allocation = find_allocation(memory); allocation != nullptr) {
    forget_accesses(memory, allocation->bytes);
    registered_now -= allocation->bytes;
  }
  return result(unregister_host(memory) ? cudaSuccess : cudaErrorHostMemoryNotRegistered);
}
cudaError_t cudaHostGetDevicePointer(void** device_pointer, void* memory, unsigned /*flags*/) {
  const Lock lock(mutex());
  const Allocation* allocation = find_allocation(memory);
  if (allocation == nullptr || allocation->kind != MemoryKind::pinned) return result(cudaErrorInvalidValue);
  *device_pointer = memory;
  return result(cudaSuccess);
}

cudaError_t cudaMemGetInfo(std::size_t* free_bytes, std::size_t* total_bytes) {
  const Lock lock(mutex());
  require_chosen_device("cudaMemGetInfo");
  *free_bytes = free_device_bytes(current_device());
  *total_bytes = gpu_memory_bytes();
  return result(cudaSuccess);
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  const Lock lock(mutex());
  *attributes = cudaPointerAttributes{};
  const Allocation* allocation = find_allocation(pointer);
  if (allocation == nullptr) {
    attributes->type = cudaMemoryTypeUnregistered;
    attributes->device = -1;
    return result(cudaSuccess);
  }
  attributes->type = allocation->kind == MemoryKind::device ? cudaMemoryTypeDevice : cudaMemoryTypeHost;
  attributes->device = allocation->device;
  attributes->devicePointer = const_cast<void*>(pointer);
  attributes->hostPointer = allocation->kind == MemoryKind::device ? nullptr : const_cast<void*>(pointer);
  return result(cudaSuccess);
}

cudaError_t cudaMemcpyAsync(void* destination, const void* source, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  const Lock lock(mutex());
  return copy(destination, source, bytes, kind, stream_of(stream, "cudaMemcpyAsync"), true, "cudaMemcpyAsync");
}
cudaError_t cudaMemcpy(void* destination, const void* source, std::size_t bytes, cudaMemcpyKind kind) {
  const Lock lock(mutex());
  return copy(destination, source, bytes, kind, stream_of(nullptr, "cudaMemcpy"), false, "cudaMemcpy");
}
cudaError_t cudaMemcpy2DAsync(void* destination, std::size_t destination_pitch, const void* source,
                              std::size_t source_pitch, std::size_t width, std::size_t height, cudaMemcpyKind kind,
                              cudaStream_t stream) {
  const Lock lock(mutex());
  CUstream_st& queue = stream_of(stream, "cudaMemcpy2DAsync");
  if (width > destination_pitch || width > source_pitch) return result(cudaErrorInvalidPitchValue);
  for (std::size_t row = 0; row < height; ++row) {
    const cudaError_t code =
        copy(static_cast<char*>(destination) + row * destination_pitch,
             static_cast<const char*>(source) + row * source_pitch, width, kind, queue, true, "cudaMemcpy2DAsync");
    if (code != cudaSuccess) return code;
  }
  return result(cudaSuccess);
}

cudaError_t cudaMemsetAsync(void* begin, int value, std::size_t bytes, cudaStream_t stream) {
  const Lock lock(mutex());
  return fill(begin, value, bytes, stream_of(stream, "cudaMemsetAsync"), "cudaMemsetAsync");
}
cudaError_t cudaMemset(void* begin, int value, std::size_t bytes) {
  const Lock lock(mutex());
  return fill(begin, value, bytes, stream_of(nullptr, "cudaMemset"), "cudaMemset");
}
