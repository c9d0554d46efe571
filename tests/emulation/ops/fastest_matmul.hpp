// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>
#include <string>

namespace sft::ops::testing {

/// While it lives, this one of cuBLASLt's proposals is the fastest, from 0, and each is slower than that by a
/// millisecond for each place between the two.
class FastestMatmul {
 public:
  explicit FastestMatmul(int proposal) { setenv("SFT_EMULATED_FASTEST_MATMUL", std::to_string(proposal).c_str(), 1); }
  ~FastestMatmul() { unsetenv("SFT_EMULATED_FASTEST_MATMUL"); }
  FastestMatmul(const FastestMatmul&) = delete;
  FastestMatmul& operator=(const FastestMatmul&) = delete;
};

}  // namespace sft::ops::testing
