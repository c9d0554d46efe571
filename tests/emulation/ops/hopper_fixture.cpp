// SPDX-License-Identifier: Apache-2.0
// Linked beside tests of attention: a GPU of compute capability 9.0, and the kernels for it.
#include <boost/test/unit_test.hpp>
#include <cstdlib>

#include "emulation/ops/support.hpp"

namespace sft::ops::testing {

namespace {

struct Hopper {
  Hopper() {
    setenv("SFT_EMULATED_COMPUTE_CAPABILITY", "90", 1);
    tested_attention() = AttentionKernels::hopper;
  }
};

}  // namespace

BOOST_TEST_GLOBAL_FIXTURE(Hopper);

}  // namespace sft::ops::testing
