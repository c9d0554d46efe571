// SPDX-License-Identifier: Apache-2.0
#pragma once
// How every kernel is launched, and where a kernel finds its shared memory.

#include <cuda_runtime.h>

#include <cstddef>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include "sft/core/gpu_launches.hpp"

namespace sft::cuda {

/// The start of the block's dynamic shared memory, 128-byte aligned. Every call gives the same address.
template <class T>
__device__ __forceinline__ T* shared_memory() {
  extern __shared__ __align__(128) unsigned char dynamic_shared_memory[];
  return reinterpret_cast<T*>(dynamic_shared_memory);
}

namespace detail {

/// Shared memory that every kernel may use without asking.
inline constexpr std::size_t free_shared_bytes = std::size_t{48} << 10;

inline void check_launch(cudaError_t code, const char* name, const char* call) {
  if (code == cudaSuccess) return;
  throw_if_of_a_kernel(code, cudaGetErrorString(code));
  throw std::runtime_error(std::string("kernel ") + name + " was not launched (" + call + ": " +
                           cudaGetErrorString(code) + ")");
}

inline void launch_untyped(const char* name, const void* kernel, dim3 grid, dim3 block, std::size_t shared_bytes,
                           cudaStream_t stream, void** arguments) {
  note_launch(name, stream);
  if (shared_bytes > free_shared_bytes) {
    check_launch(
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared_bytes)), name,
        "cudaFuncSetAttribute");
  }
  check_launch(cudaLaunchKernel(kernel, grid, block, arguments, shared_bytes, stream), name, "cudaLaunchKernel");
}

template <class... P, std::size_t... I>
void launch_values(const char* name, void (*kernel)(P...), dim3 grid, dim3 block, std::size_t shared_bytes,
                   cudaStream_t stream, std::tuple<P...>& values, std::index_sequence<I...>) {
  void* arguments[] = {static_cast<void*>(&std::get<I>(values))..., nullptr};
  launch_untyped(name, reinterpret_cast<const void*>(kernel), grid, block, shared_bytes, stream, arguments);
}

}  // namespace detail

/// Queues kernel<<<grid, block, shared_bytes, stream>>>(arguments...) and returns; raises the kernel's limit of dynamic
/// shared memory where it needs more than 48 KiB. Arguments are converted to the kernel's parameters and copied. Throws
/// std::runtime_error with `name`, a literal, when the launch itself is refused, and the Error of throw_if_of_a_kernel
/// where a kernel broke off before it.
template <class... P, class... A>
void launch(const char* name, void (*kernel)(P...), dim3 grid, dim3 block, std::size_t shared_bytes,
            cudaStream_t stream, A&&... arguments) {
  static_assert(sizeof...(P) == sizeof...(A), "one argument for each parameter of the kernel");
  static_assert((!std::is_reference_v<P> && ...), "a kernel takes its parameters by value");
  std::tuple<P...> values(static_cast<P>(std::forward<A>(arguments))...);
  detail::launch_values(name, kernel, grid, block, shared_bytes, stream, values, std::index_sequence_for<P...>{});
}

}  // namespace sft::cuda
