// SPDX-License-Identifier: Apache-2.0
#pragma once
// What CUDA's compiler knows and g++ does not: the functions that kernels use, in alphabetical order after the barriers
// and exchanges. Approximate functions are exact here.

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "runtime/atomics.hpp"
#include "runtime/block.hpp"

#define __launch_bounds__(...)

// Default arguments are evaluated where the function is called: two threads meet only at the same line.
#define SFT_SITE_PARAMETERS const char *file = __builtin_FILE(), int line = __builtin_LINE()

inline void __syncthreads(SFT_SITE_PARAMETERS) { sft::emulation::block_barrier({file, line}); }
inline int __syncthreads_and(int predicate, SFT_SITE_PARAMETERS) {
  return sft::emulation::block_vote(sft::emulation::Vote::all, predicate != 0, {file, line});
}
inline int __syncthreads_count(int predicate, SFT_SITE_PARAMETERS) {
  return sft::emulation::block_vote(sft::emulation::Vote::count, predicate != 0, {file, line});
}
inline int __syncthreads_or(int predicate, SFT_SITE_PARAMETERS) {
  return sft::emulation::block_vote(sft::emulation::Vote::any, predicate != 0, {file, line});
}
inline void __syncwarp(unsigned mask = 0xffffffffU, SFT_SITE_PARAMETERS) {
  sft::emulation::warp_barrier(mask, {file, line});
}

inline int __all_sync(unsigned mask, int predicate, SFT_SITE_PARAMETERS) {
  return sft::emulation::warp_ballot("__all_sync", mask, predicate != 0, {file, line}) == mask ? 1 : 0;
}
inline int __any_sync(unsigned mask, int predicate, SFT_SITE_PARAMETERS) {
  return sft::emulation::warp_ballot("__any_sync", mask, predicate != 0, {file, line}) != 0 ? 1 : 0;
}
inline unsigned __ballot_sync(unsigned mask, int predicate, SFT_SITE_PARAMETERS) {
  return sft::emulation::warp_ballot("__ballot_sync", mask, predicate != 0, {file, line});
}

namespace sft::emulation {

inline int current_lane() {
  return static_cast<int>((threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % 32);
}

/// A shuffle of any of CUDA's types: 4 or 8 bytes, or bfloat16.
template <class T>
T shuffle(const char* name, unsigned mask, T value, int source_lane, const char* file, int line) {
  static_assert(std::is_trivially_copyable_v<T> && (sizeof(T) == 2 || sizeof(T) == 4 || sizeof(T) == 8));
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  bits = warp_shuffle(name, mask, bits, source_lane, {file, line});
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}

}  // namespace sft::emulation

// The warp is cut into segments of `width` lanes; who would read beyond its segment reads itself.
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32, SFT_SITE_PARAMETERS) {
  const int lane = sft::emulation::current_lane();
  const int source = lane % width + static_cast<int>(delta) < width ? lane + static_cast<int>(delta) : lane;
  return sft::emulation::shuffle("__shfl_down_sync", mask, value, source, file, line);
}
template <class T>
T __shfl_sync(unsigned mask, T value, int source_lane, int width = 32, SFT_SITE_PARAMETERS) {
  const int lane = sft::emulation::current_lane();
  const int source = lane / width * width + (source_lane & (width - 1));
  return sft::emulation::shuffle("__shfl_sync", mask, value, source, file, line);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, SFT_SITE_PARAMETERS) {
  const int lane = sft::emulation::current_lane();
  const int source = lane % width >= static_cast<int>(delta) ? lane - static_cast<int>(delta) : lane;
  return sft::emulation::shuffle("__shfl_up_sync", mask, value, source, file, line);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32, SFT_SITE_PARAMETERS) {
  const int lane = sft::emulation::current_lane();
  // Earlier segments may be read, later ones not.
  const int other = lane ^ lane_mask;
  const int source = other / width <= lane / width ? other : lane;
  return sft::emulation::shuffle("__shfl_xor_sync", mask, value, source, file, line);
}

// Integers only: a sum of floats by atomics depends on the order. `order` of fences and atomics: see runtime/atomics.hpp.
template <class T>
T atomicAdd(T* address, std::type_identity_t<T> value) = delete;
inline int atomicAdd(int* address, int value) { return sft::emulation::atomic_add(address, value); }
inline unsigned atomicAdd(unsigned* address, unsigned value) { return sft::emulation::atomic_add(address, value); }
inline unsigned long long atomicAdd(unsigned long long* address, unsigned long long value) {
  return sft::emulation::atomic_add(address, value);
}
