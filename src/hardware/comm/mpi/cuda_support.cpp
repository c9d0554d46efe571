// SPDX-License-Identifier: Apache-2.0
// Whether MPI takes addresses of GPU memory. No part of the standard: Open MPI, MPICH and their relatives answer
// through functions of their own, which a library may lack.
#include <mpi.h>

#include "communicator.hpp"
#include "sft/comm/collectives.hpp"
#include "sft/core/error.hpp"

extern "C" {
[[gnu::weak]] int MPIX_Query_cuda_support();                                   // NOLINT: MPI's name
[[gnu::weak]] int MPIX_GPU_query_support(int kind_of_gpu, int* is_supported);  // NOLINT: MPI's name
}

namespace sft::comm {

bool is_mpi_cuda_aware() {
  if (MPIX_Query_cuda_support != nullptr && MPIX_Query_cuda_support() == 1) return true;
  constexpr int cuda = 0;  // MPIX_GPU_SUPPORT_CUDA
  int is_supported = 0;
  return MPIX_GPU_query_support != nullptr && MPIX_GPU_query_support(cuda, &is_supported) == MPI_SUCCESS &&
         is_supported == 1;
}

void require_cuda_mpi() {
  if (is_mpi_cuda_aware()) return;
  throw_config_error(
      "`device.comm = mpi` cannot send from the memory of GPUs",
      mpi_library() + " of this program says that it does not support CUDA",
      "use an MPI library with CUDA support (Cray MPICH has it with MPICH_GPU_SUPPORT_ENABLED=1), or set "
      "comm = nccl, or comm = host where ranks share a GPU");
}

}  // namespace sft::comm
