// SPDX-License-Identifier: Apache-2.0
#pragma once
// Neighbouring elements of a row, read and written together and computed with in float32: 16 bytes an access where N
// elements have as many, which their address then has to be a multiple of. N = 1 is for addresses that are not.

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "ops/cuda/ptx.cuh"

namespace sft::ops::cuda {

using Bf16 = __nv_bfloat16;

/// Elements in 16 bytes, of the widest type: with more, the lanes of a warp would leave gaps between the 16 bytes that
/// each accesses at a time.
template <class... T>
inline constexpr int vector_size = 16 / static_cast<int>(std::max({sizeof(T)...}));

__device__ __forceinline__ float load(const float* at) { return *at; }
__device__ __forceinline__ float load(const Bf16* at) { return __bfloat162float(*at); }

/// x in the precision of T; bf16 rounds to the nearest, ties to even.
template <class T>
__device__ __forceinline__ float rounded(float x) {
  if constexpr (sizeof(T) == sizeof(float)) {
    return x;
  } else {
    return __bfloat162float(__float2bfloat16_rn(x));
  }
}

__device__ __forceinline__ void store(float* at, float x) { *at = x; }
__device__ __forceinline__ void store(Bf16* at, float x) { *at = __float2bfloat16_rn(x); }

template <int N>
__device__ __forceinline__ void load(float (&x)[N], const float* at) {
  if constexpr (N == 1) {
    x[0] = *at;
  } else {
    static_assert(N % 4 == 0, "whole accesses of 16 bytes");
#pragma unroll
    for (int i = 0; i < N; i += 4) {
      const float4 part = *reinterpret_cast<const float4*>(at + i);
      x[i] = part.x;
      x[i + 1] = part.y;
      x[i + 2] = part.z;
      x[i + 3] = part.w;
    }
  }
}

template <int N>
__device__ __forceinline__ void store(float* at, const float (&x)[N]) {
  if constexpr (N == 1) {
    *at = x[0];
  } else {
    static_assert(N % 4 == 0, "whole accesses of 16 bytes");
#pragma unroll
    for (int i = 0; i < N; i += 4) {
      ptx::store_vector(reinterpret_cast<float4*>(at + i), make_float4(x[i], x[i + 1], x[i + 2], x[i + 3]));
    }
  }
}

/// A vector of bf16 as it is read and written: words of two each. (Structs of bf16 would be copied element by element.)
template <int N>
struct Bf16Words;
template <>
struct Bf16Words<4> {
  using type = uint2;
};
template <>
struct Bf16Words<8> {
  using type = uint4;
};

template <int N>
__device__ __forceinline__ void load(float (&x)[N], const Bf16* at) {
  if constexpr (N == 1) {
    x[0] = __bfloat162float(*at);
  } else {
    const auto vector = *reinterpret_cast<const typename Bf16Words<N>::type*>(at);
    unsigned words[N / 2];
    std::memcpy(words, &vector, sizeof vector);
#pragma unroll
    for (int i = 0; i < N / 2; ++i) {
      x[2 * i] = __uint_as_float(words[i] << 16);
      x[2 * i + 1] = __uint_as_float(words[i] & 0xffff0000u);
    }
  }
}

template <int N>
__device__ __forceinline__ void store(Bf16* at, const float (&x)[N]) {
  if constexpr (N == 1) {
    *at = __float2bfloat16_rn(x[0]);
  } else {
    __nv_bfloat162 pairs[N / 2];
#pragma unroll
    for (int i = 0; i < N / 2; ++i) pairs[i] = __floats2bfloat162_rn(x[2 * i], x[2 * i + 1]);
    typename Bf16Words<N>::type vector;
    std::memcpy(&vector, pairs, sizeof vector);
    ptx::store_vector(reinterpret_cast<typename Bf16Words<N>::type*>(at), vector);
  }
}

/// N neighbours as they lie in memory: what a thread keeps of a row between two uses costs no more registers than
/// bytes. As words, since structs of bf16 would be copied element by element.
template <class T, int N>
struct Packed {
  static constexpr int num_words = N * static_cast<int>(sizeof(T)) / 4;
  unsigned words[num_words];

  __device__ __forceinline__ void read(const T* at) {
    if constexpr (num_words % 4 == 0) {
      const auto* parts = reinterpret_cast<const uint4*>(at);
#pragma unroll
      for (int i = 0; i < num_words; i += 4) {
        const uint4 part = parts[i / 4];
        words[i] = part.x;
        words[i + 1] = part.y;
        words[i + 2] = part.z;
        words[i + 3] = part.w;
      }
    } else {
      static_assert(num_words == 2, "accesses of 8 bytes");
      const uint2 part = *reinterpret_cast<const uint2*>(at);
      words[0] = part.x;
      words[1] = part.y;
    }
  }
  __device__ __forceinline__ void write(T* at) const {
    if constexpr (num_words % 4 == 0) {
      auto* parts = reinterpret_cast<uint4*>(at);
#pragma unroll
      for (int i = 0; i < num_words; i += 4) {
        ptx::store_vector(parts + i / 4, make_uint4(words[i], words[i + 1], words[i + 2], words[i + 3]));
      }
    } else {
      ptx::store_vector(reinterpret_cast<uint2*>(at), make_uint2(words[0], words[1]));
    }
  }
  /// In the precision of T; bf16 rounds to the nearest, ties to even.
  __device__ __forceinline__ void pack(const float (&x)[N]) {
    if constexpr (sizeof(T) == sizeof(float)) {
#pragma unroll
      for (int i = 0; i < N; ++i) words[i] = __float_as_uint(x[i]);
    } else {
#pragma unroll
      for (int i = 0; i < num_words; ++i) {
        const __nv_bfloat162 pair = __floats2bfloat162_rn(x[2 * i], x[2 * i + 1]);
        std::memcpy(&words[i], &pair, sizeof pair);
      }
    }
  }
  __device__ __forceinline__ void unpack(float (&x)[N]) const {
    if constexpr (sizeof(T) == sizeof(float)) {
#pragma unroll
      for (int i = 0; i < N; ++i) x[i] = __uint_as_float(words[i]);
    } else {
#pragma unroll
      for (int i = 0; i < num_words; ++i) {
        x[2 * i] = __uint_as_float(words[i] << 16);
        x[2 * i + 1] = __uint_as_float(words[i] & 0xffff0000u);
      }
    }
  }
};
template <class T>
struct Packed<T, 1> {
  T element;

  __device__ __forceinline__ void read(const T* at) { element = *at; }
  __device__ __forceinline__ void write(T* at) const { *at = element; }
  __device__ __forceinline__ void pack(const float (&x)[1]) { store(&element, x[0]); }
  __device__ __forceinline__ void unpack(float (&x)[1]) const { x[0] = load(&element); }
};

template <class T>
struct Type {
  using type = T;
};

/// Calls f with Type<Bf16> or Type<float>. Host.
template <class F>
void with_type(bool is_bf16, F f) {
  if (is_bf16) {
    f(Type<Bf16>{});
  } else {
    f(Type<float>{});
  }
}

}  // namespace sft::ops::cuda
