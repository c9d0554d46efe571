// SPDX-License-Identifier: Apache-2.0
#include "reduce_parts.hpp"

#include <algorithm>

#include "ops/cuda/launch.cuh"

namespace sft::comm {

namespace {

constexpr int block_size = 256;

struct Sum {
  template <class T>
  __device__ static T join(T a, T b) {
    return a + b;
  }
};
struct Max {
  template <class T>
  __device__ static T join(T a, T b) {
    return a < b || b != b ? b : a;
  }
};

template <class Op>
__device__ float join(float a, float b) {
  return Op::join(a, b);
}
template <class Op>
__device__ double join(double a, double b) {
  return Op::join(a, b);
}
template <class Op>
__device__ float4 join(float4 a, float4 b) {
  return make_float4(Op::join(a.x, b.x), Op::join(a.y, b.y), Op::join(a.z, b.z), Op::join(a.w, b.w));
}
template <class Op>
__device__ double2 join(double2 a, double2 b) {
  return make_double2(Op::join(a.x, b.x), Op::join(a.y, b.y));
}

/// out[i] = the parts joined; with `adds`, out[i] + the parts joined. Reads each part once and writes out, with `adds`
/// reads it too: (size + 1) or (size + 2) x the bytes of out, which is its roofline.
template <class Vector, class Op, bool adds>
__global__ void __launch_bounds__(block_size)
    reduce_parts_kernel(Vector* out, Contributions parts, std::int64_t num_vectors) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < num_vectors;
       i += stride) {
    Vector all = reinterpret_cast<const Vector*>(parts.part(0))[i];
    for (int r = 1; r < parts.size; ++r) all = join<Op>(all, reinterpret_cast<const Vector*>(parts.part(r))[i]);
    out[i] = adds ? join<Op>(out[i], all) : all;
  }
}

/// `parts` from `bytes` on.
Contributions behind(const Contributions& parts, std::size_t bytes) {
  Contributions rest = parts;
  rest.slots += bytes;
  rest.own += bytes;
  return rest;
}

template <class Vector, class Op, bool adds, class T>
void reduce_vectors(T* out, const Contributions& parts, std::int64_t num_vectors, cudaStream_t stream) {
  if (num_vectors == 0) return;
  constexpr std::int64_t max_blocks = 4096;
  const auto num_blocks = static_cast<unsigned>(std::min(max_blocks, (num_vectors + block_size - 1) / block_size));
  cuda::launch("reduce_parts", reduce_parts_kernel<Vector, Op, adds>, dim3(num_blocks), dim3(block_size), 0, stream,
               reinterpret_cast<Vector*>(out), parts, num_vectors);
}

template <class T>
struct Wide;
template <>
struct Wide<float> {
  using type = float4;
};
template <>
struct Wide<double> {
  using type = double2;
};

bool is_aligned(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer) % sizeof(float4) == 0; }

template <class Op, bool adds, class T>
void reduce(T* out, const Contributions& parts, std::int64_t num_elements, cudaStream_t stream) {
  constexpr std::int64_t width = sizeof(float4) / sizeof(T);
  const bool is_wide = is_aligned(out) && is_aligned(parts.own) &&
                       (parts.size == 1 || (is_aligned(parts.slots) && parts.slot_bytes % sizeof(float4) == 0));
  const std::int64_t num_vectors = is_wide ? num_elements / width : 0;
  const std::int64_t done = num_vectors * width;
  reduce_vectors<typename Wide<T>::type, Op, adds>(out, parts, num_vectors, stream);
  reduce_vectors<T, Op, adds>(out + done, behind(parts, done * sizeof(T)), num_elements - done, stream);
}

}  // namespace

template <class T>
void sum_parts(T* out, const Contributions& parts, std::int64_t num_elements, cudaStream_t stream) {
  reduce<Sum, false>(out, parts, num_elements, stream);
}
template <class T>
void max_parts(T* out, const Contributions& parts, std::int64_t num_elements, cudaStream_t stream) {
  reduce<Max, false>(out, parts, num_elements, stream);
}
template void sum_parts(float*, const Contributions&, std::int64_t, cudaStream_t);
template void sum_parts(double*, const Contributions&, std::int64_t, cudaStream_t);
template void max_parts(float*, const Contributions&, std::int64_t, cudaStream_t);
template void max_parts(double*, const Contributions&, std::int64_t, cudaStream_t);

void add_parts(float* out, const Contributions& parts, std::int64_t num_elements, cudaStream_t stream) {
  reduce<Sum, true>(out, parts, num_elements, stream);
}

}  // namespace sft::comm
