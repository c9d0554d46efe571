// SPDX-License-Identifier: Apache-2.0
// What attention leaves of the tiles of each thread.

#include "unit/ops/amx/tile_registers.hpp"
#include "unit/ops/attention_problem.hpp"

namespace sft::ops::testing {

BOOST_AUTO_TEST_SUITE(threads)

BOOST_AUTO_TEST_CASE(every_thread_configures_its_tiles_and_releases_them) {
  const Shape shape{200, 200, 4, 2, 64};
  const Spans spans = documents({90, 60, 50});
  const BackwardProblem problem(shape, DType::bf16, spans);
  for (const int num_threads : {1, 4}) {
    omp_set_num_threads(num_threads);
    TestBackend backend(testable_isas().back());
    const std::int64_t before = num_configurations();
    problem.forward(backend, spans);
    BOOST_TEST(num_configurations() - before == num_threads);
    BOOST_TEST(num_configured_threads() == 0);
    problem.backward(backend, spans, Gradients(shape, DType::bf16, DType::bf16));
    BOOST_TEST(num_configurations() - before == 2 * num_threads);
    BOOST_TEST(num_configured_threads() == 0);
  }
}

BOOST_AUTO_TEST_CASE(attention_of_float32_leaves_tiles_alone) {
  omp_set_num_threads(2);
  TestBackend backend(testable_isas().back());
  const std::int64_t before = num_configurations();
  const Problem problem({70, 70, 2, 1, 64}, DType::float32, DType::float32);
  problem.forward(backend, documents({70}));
  BOOST_TEST(num_configurations() == before);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft::ops::testing
