// SPDX-License-Identifier: Apache-2.0
#include "checks/faulty_kernels.hpp"

#include <cstring>

#include "emulated_gpu/launch.cuh"

namespace sft::test {

namespace {

constexpr unsigned all_lanes = 0xffffffffU;

float host_value = 1;

/// Fills shared memory before the faults that read it.
__device__ float* filled_shared_memory() {
  auto* const shared = emulation::shared_memory<float>();
  shared[threadIdx.x] = 1;
  __syncthreads();
  return shared;
}

__global__ void __launch_bounds__(64) faulty_kernel(Fault fault, float* values, float* heap) {
  const unsigned thread = threadIdx.x, other = (thread + 33) % blockDim.x;
  float* const own = values + blockIdx.x * blockDim.x;
  auto* const shared = emulation::shared_memory<float>();
  switch (fault) {
    case Fault::shared_read_without_barrier:
      shared[thread] = 1;
      own[thread] = shared[other];
      break;
    case Fault::shared_write_without_barrier: {
      const float mine = filled_shared_memory()[other];
      shared[thread] = mine + 1;
      break;
    }
    case Fault::barrier_of_warps_for_a_block:
      shared[thread] = 1;
      __syncwarp();
      own[thread] = shared[other];
      break;
    case Fault::shared_out_of_bounds:
      shared[thread + 1] = 1;
      break;
    case Fault::device_out_of_bounds:
      shared[thread] = values[thread + 65];
      break;
    case Fault::device_out_of_bounds_by_memcpy:
      std::memcpy(shared, values + 65, blockDim.x * sizeof(float));
      break;
    case Fault::misaligned_vector: {
      if (thread % 4 == 1) *reinterpret_cast<float4*>(shared) = *reinterpret_cast<const float4*>(own + thread);
      break;
    }
    case Fault::barrier_in_a_branch:
      if (thread < 32) __syncthreads();
      own[thread] = 1;
      break;
    case Fault::barriers_at_two_places:
      if (thread < 32) {
        __syncthreads();
      } else {
        __syncthreads();
      }
      break;
    case Fault::barrier_after_threads_ended:
      if (thread == 5) return;
      __syncthreads();
      break;
    case Fault::exchange_without_all_lanes:
      if (thread % 2 == 0) own[thread] = __shfl_xor_sync(all_lanes, 1.0F, 2);
      break;
    case Fault::exchange_from_a_lane_that_is_absent:
      if (thread % 2 == 0) own[thread] = __shfl_xor_sync(0x55555555U, 1.0F, 1);
      break;
    case Fault::mask_without_the_lane:
      own[thread] = __shfl_xor_sync(0x55555555U, 1.0F, 2);
      break;
    case Fault::blocks_write_the_same:
      values[thread] = 1;
      break;
    case Fault::block_reads_what_another_writes:
      own[thread] = 1;
      if (blockIdx.x == 0) shared[thread] = values[thread + blockDim.x];
      break;
    case Fault::atomic_and_plain: {
      auto* const count = reinterpret_cast<unsigned*>(shared);
      if (thread == 0) *count = 0;
      atomicAdd(count, 1U);
      break;
    }
    case Fault::host_memory:
      own[thread] = *heap;
      break;
    case Fault::stack_of_another_thread: {
      auto** const addresses = emulation::shared_memory<float*>();
      float mine = 1;
      if (thread == 0) addresses[0] = &mine;
      __syncthreads();
      if (thread == 1) *addresses[0] = 2;
      __syncthreads();
      own[thread] = mine;
      break;
    }
    case Fault::copy_not_waited_for:
      if (thread < 16) emulation::defer_copy(shared + 4 * thread, own + 4 * thread, 16, 16);
      break;
    case Fault::copy_read_before_the_wait:
      if (thread < 16) emulation::defer_copy(shared + 4 * thread, own + 4 * thread, 16, 16);
      emulation::commit_copies();
      __syncthreads();
      own[thread] = shared[thread];
      emulation::wait_copies(0);
      break;
    case Fault::copy_over_what_others_read: {
      const float mine = filled_shared_memory()[other];
      if (thread < 16) emulation::defer_copy(shared + 4 * thread, own + 4 * thread, 16, 16);
      emulation::commit_copies();
      emulation::wait_copies(0);
      __syncthreads();
      own[thread] = mine + shared[thread];
      break;
    }
    case Fault::copy_of_nothing_from_a_misaligned_address:
      if (thread < 16) emulation::defer_copy(shared + 4 * thread, own + 4 * thread + 1, 16, 0);
      emulation::commit_copies();
      emulation::wait_copies(0);
      break;
  }
}

}  // namespace

void commit(Fault fault, float* values, cudaStream_t stream) {
  auto* const heap = new float(host_value);
  emulation::launch("faulty", faulty_kernel, 2, 64, 64 * sizeof(float), stream, fault, values, heap);
}

}  // namespace sft::test
