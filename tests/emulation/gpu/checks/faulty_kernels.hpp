// SPDX-License-Identifier: Apache-2.0
#pragma once
// Kernels that do what they may not do, one thing each.

#include <cuda_runtime_api.h>

namespace sft::test {

enum class Fault {
  shared_read_without_barrier,
  shared_write_without_barrier,
  barrier_of_warps_for_a_block,
  shared_out_of_bounds,
  device_out_of_bounds,
  device_out_of_bounds_by_memcpy,
  misaligned_vector,
  barrier_in_a_branch,
  barriers_at_two_places,
  barrier_after_threads_ended,
  exchange_without_all_lanes,
  exchange_from_a_lane_that_is_absent,
  mask_without_the_lane,
  blocks_write_the_same,
  block_reads_what_another_writes,
  atomic_and_plain,
  host_memory,
  stack_of_another_thread,
  copy_not_waited_for,
  copy_read_before_the_wait,
  copy_over_what_others_read,
  copy_of_nothing_from_a_misaligned_address,
};

/// 2 blocks of 64 threads with 64 floats of shared memory; `values` holds 128 floats.
void commit(Fault fault, float* values, cudaStream_t stream);

}  // namespace sft::test
