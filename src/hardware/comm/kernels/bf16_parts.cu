// SPDX-License-Identifier: Apache-2.0
#include "reduce_parts.hpp"

#include <algorithm>
#include <cstring>

#include "ops/cuda/launch.cuh"

namespace sft::comm {

namespace {

constexpr int block_size = 256;

/// One number, or four neighbours, of each kind as they are read and written, and as float32.
struct One {
  using Bf16 = __nv_bfloat16;
  using Float = float;

  __device__ static Float widen(Bf16 x) { return __bfloat162float(x); }
  __device__ static Bf16 round(Float x) { return __float2bfloat16_rn(x); }
  __device__ static Float add(Float a, Float b) { return a + b; }
};
struct Four {
  static constexpr int width = 4;
  using Bf16 = uint2;
  using Float = float4;

  __device__ static Float widen(Bf16 x) {
    return make_float4(__uint_as_float(x.x << 16), __uint_as_float(x.x & 0xffff0000u), __uint_as_float(x.y << 16),
                       __uint_as_float(x.y & 0xffff0000u));
  }
  __device__ static Bf16 round(Float x) {
    const __nv_bfloat162 pairs[] = {__floats2bfloat162_rn(x.x, x.y), __floats2bfloat162_rn(x.z, x.w)};
    Bf16 words;
    std::memcpy(&words, pairs, sizeof words);
    return words;
  }
  __device__ static Float add(Float a, Float b) { return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w); }
};

/// Reads 4 and writes 2 bytes an element, which is its roofline.
template <class Vector>
__global__ void __launch_bounds__(block_size)
    round_to_bf16_kernel(typename Vector::Bf16* to, const typename Vector::Float* from, std::int64_t num_vectors) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < num_vectors;
       i += stride) {
    to[i] = Vector::round(from[i]);
  }
}

/// Reads each part once and writes `out`, with `adds` reads it too: 2 size + 4 or 2 size + 8 bytes an element, which is
/// its roofline.
template <class Vector, bool adds>
__global__ void __launch_bounds__(block_size)
    sum_bf16_kernel(typename Vector::Float* out, Contributions parts, std::int64_t num_vectors) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < num_vectors;
       i += stride) {
    const auto number = [&](int r) {
      return Vector::widen(reinterpret_cast<const typename Vector::Bf16*>(parts.part(r))[i]);
    };
    typename Vector::Float all = number(0);
    for (int r = 1; r < parts.size; ++r) all = Vector::add(all, number(r));
    out[i] = adds ? Vector::add(out[i], all) : all;
  }
}

bool is_aligned(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer) % sizeof(float4) == 0; }

unsigned num_blocks(std::int64_t num_vectors) {
  constexpr std::int64_t max_blocks = 4096;
  return static_cast<unsigned>(std::min(max_blocks, (num_vectors + block_size - 1) / block_size));
}

template <class Vector>
void round_vectors(__nv_bfloat16* to, const float* from, std::int64_t num_vectors, cudaStream_t stream) {
  if (num_vectors == 0) return;
  cuda::launch("round_to_bf16", round_to_bf16_kernel<Vector>, dim3(num_blocks(num_vectors)), dim3(block_size), 0,
               stream, reinterpret_cast<typename Vector::Bf16*>(to),
               reinterpret_cast<const typename Vector::Float*>(from), num_vectors);
}

template <class Vector>
void sum_vectors(float* out, const Contributions& parts, std::int64_t num_vectors, bool adds, cudaStream_t stream) {
  if (num_vectors == 0) return;
  cuda::launch("sum_bf16", adds ? sum_bf16_kernel<Vector, true> : sum_bf16_kernel<Vector, false>,
               dim3(num_blocks(num_vectors)), dim3(block_size), 0, stream,
               reinterpret_cast<typename Vector::Float*>(out), parts, num_vectors);
}

}  // namespace

void round_to_bf16(__nv_bfloat16* to, const float* from, std::int64_t num_elements, cudaStream_t stream) {
  const bool is_wide = is_aligned(to) && is_aligned(from);
  const std::int64_t num_vectors = is_wide ? num_elements / Four::width : 0, done = num_vectors * Four::width;
  round_vectors<Four>(to, from, num_vectors, stream);
  round_vectors<One>(to + done, from + done, num_elements - done, stream);
}

void sum_bf16_parts(float* out, const Contributions& parts, std::int64_t num_elements, bool adds, cudaStream_t stream) {
  const bool is_wide = is_aligned(out) && is_aligned(parts.own) &&
                       (parts.size == 1 || (is_aligned(parts.slots) && parts.slot_bytes % sizeof(float4) == 0));
  const std::int64_t num_vectors = is_wide ? num_elements / Four::width : 0, done = num_vectors * Four::width;
  sum_vectors<Four>(out, parts, num_vectors, adds, stream);
  Contributions rest = parts;
  rest.slots += done * sizeof(__nv_bfloat16);
  rest.own += done * sizeof(__nv_bfloat16);
  sum_vectors<One>(out + done, rest, num_elements - done, adds, stream);
}

}  // namespace sft::comm
