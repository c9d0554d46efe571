// SPDX-License-Identifier: Apache-2.0
// Attention in tiles, for the sizes of heads that models have.

#include <fmt/core.h>

#include "unit/ops/attention_problem.hpp"

namespace sft::ops::testing {
namespace {

struct HeadDimCase {
  Shape shape;
  Spans spans;
  Scores scores;
};

/// Odd lengths that leave tails in blocks of keys and of queries, groups of 1 to 6 queries that share keys.
std::vector<HeadDimCase> head_dim_cases() {
  const auto bf16 = DType::bf16;
  return {{{129, 129, 2, 2, 64}, documents({1, 127}), {}},
          {{131, 131, 6, 1, 96}, documents({33, 31, 66}), {}},
          {{95, 95, 3, 1, 128}, with_window(documents({95}), 33), {.softcap = 30.0F}},
          {{77, 77, 4, 2, 128}, documents({16, 15, 17, 29}), {.has_sinks = true, .sinks_dtype = bf16}},
          {{67, 67, 5, 1, 256}, with_window(documents({2, 65}), 17), {.softcap = 4.0F, .has_sinks = true}}};
}

template <class Test>
void for_each_head_dim(const Test& test) {
  on_every_backend([&](TestBackend& backend) {
    for (const HeadDimCase& c : head_dim_cases()) {
      test(backend, c, fmt::format("head dim {}, {} rows", c.shape.head_dim, c.shape.rows));
    }
  });
}

}  // namespace

BOOST_AUTO_TEST_SUITE(head_dims)

BOOST_AUTO_TEST_CASE(forward) {
  for_each_head_dim([](TestBackend& backend, const HeadDimCase& c, const std::string& label) {
    const Problem problem(c.shape, DType::bf16, DType::float32, c.scores);
    naive::Values out, lse;
    problem.expect(out, lse, c.spans);
    problem.forward(backend, c.spans);
    check_close(problem.out(), out, attention_tolerance(backend, DType::bf16), label);
    check_close(*problem.lse, lse, 1e-6, label);
  });
}

BOOST_AUTO_TEST_CASE(backward) {
  for_each_head_dim([](TestBackend& backend, const HeadDimCase& c, const std::string& label) {
    const BackwardProblem problem(c.shape, DType::bf16, c.spans, c.scores);
    const Gradients gradients(c.shape, DType::float32, DType::float32);
    naive::Values dq(problem.naive_out.size()), dk(read(gradients.dk()).size()), dv(dk.size());
    problem.expect_gradients(dq, dk, dv);
    problem.backward(backend, c.spans, gradients);
    const double tolerance = attention_tolerance(backend, DType::bf16);
    check_close(gradients.dq(), dq, tolerance, label + " dq", score_terms);
    check_close(gradients.dk(), dk, tolerance, label + " dk", score_terms);
    check_close(gradients.dv(), dv, tolerance, label + " dv");
  });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft::ops::testing
