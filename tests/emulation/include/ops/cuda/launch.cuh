// SPDX-License-Identifier: Apache-2.0
#pragma once
// Stands in for src/hardware/ops/cuda/launch.cuh where kernels are compiled for the host: the same two functions.

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>

#include "ops/cuda/intrinsics.cuh"
#include "runtime/block.hpp"
#include "runtime/launch_queue.hpp"

namespace sft::cuda {

template <class T>
T* shared_memory() {
  return reinterpret_cast<T*>(emulation::shared_memory_begin());
}

namespace detail {

/// A kernel with copies of its arguments.
template <class... P>
struct Call {
  void (*kernel)(P...);
  std::tuple<P...> values;

  static void run(const void* call) {
    const Call& self = *static_cast<const Call*>(call);
    std::apply(self.kernel, self.values);
  }
  static void destroy(void* call) { delete static_cast<Call*>(call); }
};

}  // namespace detail

template <class... P, class... A>
void launch(const char* name, void (*kernel)(P...), dim3 grid, dim3 block, std::size_t shared_bytes,
            cudaStream_t stream, A&&... arguments) {
  static_assert(sizeof...(P) == sizeof...(A), "one argument for each parameter of the kernel");
  static_assert((!std::is_reference_v<P> && ...), "a kernel takes its parameters by value");
  static_assert((std::is_trivially_copyable_v<P> && ...), "a kernel's parameters are copied as bytes");
  using Call = detail::Call<P...>;
  auto* const call = new Call{kernel, std::tuple<P...>(static_cast<P>(std::forward<A>(arguments))...)};
  emulation::enqueue_kernel({name, grid, block, shared_bytes, &Call::run, call, sizeof(Call)}, &Call::destroy, stream);
}

}  // namespace sft::cuda
