// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace sft::test {

/// What fails on this rank while a window is made. All ranks keep calling MPI together.
struct WindowFaults {
  inline static bool mpi_fails = false;   ///< MPI_Win_allocate_shared
  inline static bool pages_fail = false;  ///< the pages that the window asks for
};

}  // namespace sft::test
