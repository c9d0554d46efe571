// SPDX-License-Identifier: Apache-2.0
#pragma once
// The only assembly of the CUDA sources: instructions of compute capability 8.0, and a few of newer GPUs, that CUDA C++
// has no function for, or does not give for sure. See NVIDIA's "PTX ISA", sections "Matrix multiply-accumulate
// operation using mma instruction", "ldmatrix" and "cp.async".
//
// How a warp holds matrices, lane l = 4 g + t (g in 0..7, t in 0..3). "pair (r, c)" is elements (r, c), low half, and
// (r, c + 1), high half, of a bf16 matrix in one 32-bit register.
//
// - A (16, 16): a[0] = pair (g, 2t), a[1] = pair (g + 8, 2t), a[2] = pair (g, 2t + 8), a[3] = pair (g + 8, 2t + 8)
//
// - B (16, 8): b0 = elements (2t, g) and (2t + 1, g), b1 = elements (2t + 8, g) and (2t + 9, g)
//
// - C and D (16, 8), float: c[0], c[1] = (g, 2t), (g, 2t + 1), c[2], c[3] = (g + 8, 2t), (g + 8, 2t + 1)
//
// - a loaded (8, 8): pair (g, 2t); transposed: elements (2t, g) and (2t + 1, g)
//
// C of two neighbouring products is, rounded to bf16, A of the next: a[0] = c[0..1] and a[1] = c[2..3] of the left one,
// a[2] and a[3] those of the right one.

#include <cuda_runtime.h>
#include <nv/target>

#include <cstdint>

namespace sft::ops::cuda::ptx {

/// An address in shared memory as instructions take it.
__device__ __forceinline__ std::uint32_t shared_address(const void* pointer) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(pointer));
}

/// c += A B, all of a warp together.
__device__ __forceinline__ void mma_m16n8k16(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                             std::uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/// Loads four (8, 8) matrices of 16-bit elements from shared memory, all of a warp together: lane l gives the address
/// of row l % 8 of matrix l / 8, 16 bytes aligned to 16.
__device__ __forceinline__ void load_matrices(std::uint32_t (&m)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
               : "r"(shared_address(row))
               : "memory");
}

/// The same, each matrix transposed.
__device__ __forceinline__ void load_matrices_transposed(std::uint32_t (&m)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
               : "r"(shared_address(row))
               : "memory");
}

/// Starts to copy 16 bytes from global to shared memory, both aligned to 16, or to write zeros unless `is_there`, when
/// `global` is not read. Done for this thread after wait_copies, for others after a barrier behind it.
__device__ __forceinline__ void copy_16_async(void* shared, const void* global, bool is_there) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
               :
               : "r"(shared_address(shared)), "l"(global), "r"(is_there ? 16 : 0)
               : "memory");
}

/// The same for 4 bytes.
__device__ __forceinline__ void copy_4_async(void* shared, const void* global, bool is_there) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;"
               :
               : "r"(shared_address(shared)), "l"(global), "r"(is_there ? 4 : 0)
               : "memory");
}

/// Makes a group of the copies that this thread has started since the last one.
__device__ __forceinline__ void commit_copies() { asm volatile("cp.async.commit_group;" : : : "memory"); }

/// Waits until at most the kNewest newest groups of this thread are under way.
template <int kNewest>
__device__ __forceinline__ void wait_copies() {
  asm volatile("cp.async.wait_group %0;" : : "n"(kNewest) : "memory");
}

/// *at = value, in global memory, as one instruction: where a vector is assigned, the compiler makes four of some.
__device__ __forceinline__ void store_vector(uint4* at, uint4 value) {
  asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};"
               :
               : "l"(__cvta_generic_to_global(at)), "r"(value.x), "r"(value.y), "r"(value.z), "r"(value.w)
               : "memory");
}
__device__ __forceinline__ void store_vector(uint2* at, uint2 value) {
  asm volatile("st.global.v2.b32 [%0], {%1, %2};"
               :
               : "l"(__cvta_generic_to_global(at)), "r"(value.x), "r"(value.y)
               : "memory");
}
__device__ __forceinline__ void store_vector(float4* at, float4 value) {
  asm volatile("st.global.v4.f32 [%0], {%1, %2, %3, %4};"
               :
               : "l"(__cvta_generic_to_global(at)), "f"(value.x), "f"(value.y), "f"(value.z), "f"(value.w)
               : "memory");
}

/// Whether this code is compiled for GPUs that convert to 8-bit floats: from compute capability 8.9 on.
__device__ __forceinline__ constexpr bool has_fp8() {
  NV_IF_ELSE_TARGET(NV_PROVIDES_SM_89, (return true;), (return false;));
}

/// Two numbers as 8-bit floats, the second in the upper byte of 16 bits: rounded to the nearest, ties to even; what is
/// too large becomes the largest, NaN one of the format's. Where there is has_fp8().
__device__ __forceinline__ std::uint32_t e4m3_pair(float first, float second) {
  std::uint16_t pair = 0;
  NV_IF_TARGET(NV_PROVIDES_SM_89, (asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;"
                                       : "=h"(pair)
                                       : "f"(second), "f"(first));));
  return pair;
}
__device__ __forceinline__ std::uint32_t e5m2_pair(float first, float second) {
  std::uint16_t pair = 0;
  NV_IF_TARGET(NV_PROVIDES_SM_89, (asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;"
                                       : "=h"(pair)
                                       : "f"(second), "f"(first));));
  return pair;
}

/// 2^x to within 2 units of the last place; results below the normal numbers are 0.
__device__ __forceinline__ float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// x, of whose value the compiler knows nothing: what follows from it is computed here, and not kept in registers from
/// one turn of a loop to the next.
__device__ __forceinline__ int opaque(int x) {
  asm volatile("" : "+r"(x));
  return x;
}

}  // namespace sft::ops::cuda::ptx
