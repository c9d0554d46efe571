// SPDX-License-Identifier: Apache-2.0
#pragma once
// Atomic operations of kernels on integers of the block's shared memory or of device memory. They return the old value.

namespace sft::emulation {

template <class T>
T atomic_add(T* address, T value);
template <class T>
T atomic_compare_and_swap(T* address, T expected, T value);
template <class T>
T atomic_exchange(T* address, T value);
template <class T>
T atomic_max(T* address, T value);
template <class T>
T atomic_min(T* address, T value);

/// __threadfence: what this thread wrote before is seen by whoever sees a later atomic operation of it.
void fence();

}  // namespace sft::emulation
