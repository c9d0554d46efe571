// SPDX-License-Identifier: Apache-2.0
// cuDNN itself on a GPU: which version there is, and the trial that a run makes at its start.

#include <boost/test/unit_test.hpp>
#include <string>
#include <vector>

#include "emulation/cudnn/layer.hpp"
#include "sft/ops/attention_trial.hpp"

namespace sft::ops::testing {

BOOST_TEST_GLOBAL_FIXTURE(CudnnTest);

BOOST_AUTO_TEST_SUITE(cudnn)

BOOST_AUTO_TEST_CASE(is_found) {
  const AttentionLibrary library = find_attention_library();
  BOOST_TEST(library.problem == "");
  BOOST_TEST_MESSAGE(library.name << (library.has_backward ? ", forward and backward" : ", forward"));
}

// Beside the kernels of this program, with the bounds that a run takes.
BOOST_AUTO_TEST_CASE(agrees_with_the_kernels) {
  const auto device = device::make_device(device::Kind::cuda);
  for (const AttentionKernels kernels : {AttentionKernels::cudnn, AttentionKernels::cudnn_unordered}) {
    const bool has_backward = find_attention_library().computes_backward(kernels);
    for (const AttentionSizes sizes : std::vector<AttentionSizes>{{2048, 32, 8, 128, 0.088F, has_backward},
                                                                  {2048, 14, 2, 64, 0.125F, has_backward},
                                                                  {777, 32, 32, 80, 0.11F, has_backward},
                                                                  {1500, 16, 8, 256, 0.0625F, has_backward},
                                                                  {40, 8, 1, 128, 0.088F, has_backward},
                                                                  {2048, 32, 8, 128, 0.088F, has_backward, 512},
                                                                  {1500, 8, 4, 256, 0.0625F, has_backward, 100}}) {
      BOOST_TEST_CONTEXT(sizes.q_heads << " heads of " << sizes.head_dim << ", " << sizes.tokens
                                       << " tokens, a window of " << sizes.window
                                       << (sums_in_order(kernels) ? "" : ", sums in any order")) {
        const AttentionTrial trial = try_attention(*device, sizes, kernels);
        BOOST_TEST(trial.difference == "");
        BOOST_TEST(trial.has_forward);
        BOOST_TEST(trial.has_backward == has_backward);
      }
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft::ops::testing
