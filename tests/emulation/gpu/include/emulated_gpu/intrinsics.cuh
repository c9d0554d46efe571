// SPDX-License-Identifier: Apache-2.0
#pragma once
// What CUDA's compiler knows and g++ does not: the functions that kernels use, in alphabetical order after the barriers
// and exchanges. Approximate functions are exact here.

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <algorithm>
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

// The C library declares functions of these names for itself.
#define __cosf(x) (::cosf(x))
#define __exp10f(x) (::powf(10.0F, x))
#define __expf(x) (::expf(x))
#define __log10f(x) (::log10f(x))
#define __log2f(x) (::log2f(x))
#define __logf(x) (::logf(x))
#define __powf(x, y) (::powf(x, y))
#define __sinf(x) (::sinf(x))

inline unsigned __brev(unsigned bits) {
  unsigned result = 0;
  for (int i = 0; i < 32; ++i) result |= (bits >> i & 1U) << (31 - i);
  return result;
}
inline int __clz(int bits) { return bits == 0 ? 32 : __builtin_clz(static_cast<unsigned>(bits)); }
inline int __clzll(long long bits) { return bits == 0 ? 64 : __builtin_clzll(static_cast<unsigned long long>(bits)); }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fdividef(float a, float b) {  // 0 for large divisors, as the real one
  return std::fabs(b) > 0x1p126F && !std::isinf(b) ? a * 0.0F : a / b;
}
inline int __ffs(int bits) { return __builtin_ffs(bits); }
inline int __ffsll(long long bits) { return __builtin_ffsll(bits); }
inline int __float2int_rd(float x) { return static_cast<int>(std::floor(x)); }
inline int __float2int_rn(float x) { return static_cast<int>(std::nearbyint(x)); }
inline int __float2int_rz(float x) { return static_cast<int>(x); }
inline int __float_as_int(float x) {
  int bits = 0;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}
inline unsigned __float_as_uint(float x) { return static_cast<unsigned>(__float_as_int(x)); }
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __frcp_rn(float x) { return 1.0F / x; }
inline float __frsqrt_rn(float x) { return static_cast<float>(1.0 / std::sqrt(static_cast<double>(x))); }
inline float __fsqrt_rn(float x) { return std::sqrt(x); }
inline float __int2float_rn(int x) { return static_cast<float>(x); }
inline float __int_as_float(int bits) {
  float x = 0;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}
template <class T>
T __ldg(const T* address) {
  return *address;
}
inline long long __mul64hi(long long a, long long b) {
  return static_cast<long long>(static_cast<__int128>(a) * b >> 64);
}
inline int __popc(unsigned bits) { return __builtin_popcount(bits); }
inline int __popcll(unsigned long long bits) { return __builtin_popcountll(bits); }
inline float __saturatef(float x) { return std::fmin(std::fmax(x, 0.0F), 1.0F); }  // NaN becomes 0
inline void __threadfence() { sft::emulation::fence(); }
inline void __threadfence_block() { sft::emulation::fence(); }
inline float __uint2float_rn(unsigned x) { return static_cast<float>(x); }
inline float __uint_as_float(unsigned bits) { return __int_as_float(static_cast<int>(bits)); }
inline float __ull2float_rn(unsigned long long x) { return static_cast<float>(x); }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return static_cast<unsigned long long>(static_cast<unsigned __int128>(a) * b >> 64);
}
inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>(static_cast<unsigned long long>(a) * b >> 32);
}
inline double rsqrt(double x) { return 1.0 / std::sqrt(x); }
inline float rsqrtf(float x) { return __frsqrt_rn(x); }
inline void sincospif(float x, float* sine, float* cosine) {
  *sine = static_cast<float>(std::sin(3.14159265358979323846 * static_cast<double>(x)));
  *cosine = static_cast<float>(std::cos(3.14159265358979323846 * static_cast<double>(x)));
}

// CUDA has these in the global namespace for every mixture of its integers.
using std::max;
using std::min;

// Atomics of integers only: a sum of floats by atomics depends on the order.
#define SFT_ATOMICS_OF(T)                                                                              \
  inline T atomicAdd(T* address, T value) { return sft::emulation::atomic_add(address, value); }       \
  inline T atomicCAS(T* address, T expected, T value) {                                                \
    return sft::emulation::atomic_compare_and_swap(address, expected, value);                          \
  }                                                                                                    \
  inline T atomicExch(T* address, T value) { return sft::emulation::atomic_exchange(address, value); } \
  inline T atomicMax(T* address, T value) { return sft::emulation::atomic_max(address, value); }       \
  inline T atomicMin(T* address, T value) { return sft::emulation::atomic_min(address, value); }
SFT_ATOMICS_OF(int)
SFT_ATOMICS_OF(unsigned)
SFT_ATOMICS_OF(unsigned long long)
#undef SFT_ATOMICS_OF
float atomicAdd(float* address, float value) = delete;
double atomicAdd(double* address, double value) = delete;

#undef SFT_SITE_PARAMETERS
