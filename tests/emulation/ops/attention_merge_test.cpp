// SPDX-License-Identifier: Apache-2.0
// Results of attention over different keys put together, against the formula in double.
#include <cuda_runtime.h>

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "emulation/ops/support.hpp"
#include "ops/cuda/attention_calls.hpp"

namespace sft::ops::testing {

BOOST_AUTO_TEST_SUITE(attention_merge)

namespace {

void check(std::int64_t tokens, std::int64_t heads, std::int64_t dim, Layout layout, unsigned seed) {
  constexpr double nothing = -std::numeric_limits<double>::infinity();
  Twin out = Twin(DType::float32, {tokens, heads, dim}, layout).normal(seed);
  Twin lse = Twin(DType::float32, {tokens, heads}).normal(seed + 1, 3.0);
  Twin part = Twin(DType::float32, {tokens, heads, dim}).normal(seed + 2);
  Twin part_lse = Twin(DType::float32, {tokens, heads}).normal(seed + 3, 3.0);
  // A query that saw no key so far, and one that saw next to nothing of what comes.
  if (tokens > 1) put(lse.at(lse.bytes(), 1, 0), DType::float32, nothing);
  if (tokens > 2) put(part_lse.at(part_lse.bytes(), 2, 0), DType::float32, -200.0);
  const std::vector<Operand> operands = {testing::out(out), testing::out(lse), in(part), in(part_lse)};
  const std::vector<std::vector<std::byte>> before = {out.bytes(), lse.bytes()};
  auto actual = run_on_gpu(operands, [&](Backend& backend, auto of) {
    const Tensor sums = of(out);
    cuda::attention_merge(
        {sums.data, sums.stride0, /*is_bf16=*/false, layout.gap % 4 == 0 && layout.offset == 0 && dim % 4 == 0},
        of(lse).template as<float>(), of(part).template as<float>(), of(part_lse).template as<float>(), tokens,
        static_cast<int>(heads), static_cast<int>(dim), static_cast<cudaStream_t>(backend.stream().native()));
  });
  for (std::int64_t token = 0; token < tokens; ++token) {
    for (std::int64_t head = 0; head < heads; ++head) {
      const double first = get(lse.at(lse.bytes(), token, head), DType::float32);
      const double second = get(part_lse.at(part_lse.bytes(), token, head), DType::float32);
      const double top = std::max(first, second);
      const double total = top + std::log(std::exp(first - top) + std::exp(second - top));
      put(lse.at(lse.bytes(), token, head), DType::float32, total);
      for (std::int64_t i = head * dim; i < (head + 1) * dim; ++i) {
        const double x = get(out.at(out.bytes(), token, i), DType::float32);
        const double y = get(part.at(part.bytes(), token, i), DType::float32);
        put(out.at(out.bytes(), token, i), DType::float32, std::exp(first - total) * x + std::exp(second - total) * y);
      }
    }
  }
  const std::string what = std::to_string(tokens) + " x " + std::to_string(heads) + " x " + std::to_string(dim) +
                           ", gap " + std::to_string(layout.gap);
  compare(out, actual[0], before[0], operands[0], what + ", result");
  compare(lse, actual[1], before[1], operands[1], what + ", log-sum-exp");
}

}  // namespace

BOOST_AUTO_TEST_CASE(results_of_other_keys) {
  unsigned seed = 9000;
  for (const Layout& layout : layouts) {
    check(5, 3, 64, layout, seed += 10);
    check(37, 2, 128, layout, seed += 10);
    check(3, 1, 30, layout, seed += 10);
    check(1, 4, 2, layout, seed += 10);
    check(0, 4, 64, layout, seed += 10);
  }
  if (has_large_sizes()) check(4096, 32, 128, {}, seed += 10);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft::ops::testing
