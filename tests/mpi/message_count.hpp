// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace sft::test {

/// What this rank has sent by MPI_Isend.
struct MessageCount {
  inline static long messages = 0;
  inline static long bytes = 0;

  static void reset() { messages = bytes = 0; }
};

}  // namespace sft::test
