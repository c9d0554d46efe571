// SPDX-License-Identifier: Apache-2.0
#pragma once
// Launches kernels that are compiled for the host, and gives them their shared memory.

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>

#include "emulated_gpu/intrinsics.cuh"
#include "runtime/block.hpp"
#include "runtime/launch_queue.hpp"

namespace sft::emulation {

/// The start of the block's dynamic shared memory. Every call gives the same address.
template <class T>
T* shared_memory() {
  return reinterpret_cast<T*>(shared_memory_begin());
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

/// Queues kernel(arguments...) for a grid of blocks, with copies of the arguments converted to the kernel's parameters.
/// `name` must live as long as the process. Throws std::runtime_error where CUDA would refuse the launch, as it does
/// once a kernel broke off.
template <class... P, class... A>
void launch(const char* name, void (*kernel)(P...), dim3 grid, dim3 block, std::size_t shared_bytes,
            cudaStream_t stream, A&&... arguments) {
  static_assert(sizeof...(P) == sizeof...(A), "one argument for each parameter of the kernel");
  static_assert((!std::is_reference_v<P> && ...), "a kernel takes its parameters by value");
  static_assert((std::is_trivially_copyable_v<P> && ...), "a kernel's parameters are copied as bytes");
  using Call = detail::Call<P...>;
  auto* const call = new Call{kernel, std::tuple<P...>(static_cast<P>(std::forward<A>(arguments))...)};
  enqueue_kernel({name, grid, block, shared_bytes, &Call::run, call, sizeof(Call)}, &Call::destroy, stream);
}

}  // namespace sft::emulation
