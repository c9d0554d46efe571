// SPDX-License-Identifier: Apache-2.0
// What is done to the scores of attention: caps and sinks, with windows and over several calls.

#include <fmt/core.h>
#include <algorithm>
#include <array>

#include "unit/ops/attention_problem.hpp"

namespace sft::ops::testing {
namespace {

/// Caps that bend all scores, and some; sinks of either dtype, alone and with a cap.
const std::vector<Scores> kinds_of_scores = {{.softcap = 1.5F},
                                             {.softcap = 50.0F},
                                             {.has_sinks = true, .sinks_dtype = DType::bf16},
                                             {.softcap = 4.0F, .has_sinks = true}};

std::string label_of(const std::string& label, const Scores& scores) {
  return fmt::format("{}, softcap {}{}", label, scores.softcap, scores.has_sinks ? ", sinks" : "");
}

/// Whole documents, what a rank of a ring sees, and windows, one of a single key among them.
std::vector<std::pair<Shape, Spans>> cases() {
  std::vector<std::pair<Shape, Spans>> cases;
  for (const std::size_t i : {0, 3, 4}) cases.emplace_back(shapes[i], documents_of(shapes[i]));
  cases.emplace_back(zigzag_shape, zigzag());
  for (const std::int64_t window : {1, 31}) {
    cases.emplace_back(shapes[4], with_window(documents_of(shapes[4]), window));
    cases.emplace_back(far_shape, far_keys(window));
  }
  return cases;
}

template <class Test>
void for_each_case(const Test& test) {
  on_every_backend_and_dtype([&](TestBackend& backend, DType dtype, const std::string& label) {
    for (const Scores& scores : kinds_of_scores) {
      for (const auto& [shape, spans] : cases()) test(backend, dtype, shape, spans, scores, label_of(label, scores));
    }
  });
}

}  // namespace

BOOST_AUTO_TEST_SUITE(attention_scores)

BOOST_AUTO_TEST_CASE(the_loops_have_the_gradients_of_their_result) {
  const Shape shape{24, 24, 2, 1, 4};
  const Spans spans = {{0, 9, 0, 9, 0, 0, 5}, {9, 15, 9, 15, 0, 1, 5}};
  const BackwardProblem problem(shape, DType::float32, spans, {.softcap = 2.0F, .has_sinks = true});
  naive::Attention attention = problem.naive();
  naive::Values q = read(problem.q()), k = read(problem.k()), v = read(problem.v());
  const naive::Values dout = read(*problem.dout);
  naive::Values dq(q.size()), dk(k.size()), dv(v.size()), dsinks(attention.sinks.size());
  problem.expect_gradients(dq, dk, dv);
  attention.sinks_backward(dsinks, problem.naive_out, problem.naive_lse, dout);
  const auto loss = [&] {
    naive::Values out(q.size()), lse(problem.naive_lse.size());
    attention.forward(out, lse, q, k, v, spans);
    double sum = 0.0;
    for (std::size_t i = 0; i < out.size(); ++i) sum += out[i] * dout[i];
    return sum;
  };
  const auto check = [&](naive::Values& x, const naive::Values& gradient) {
    constexpr double step = 1e-5;
    for (std::size_t i = 0; i<x.size(); i += x.size()> 20 ? 7 : 1) {
      const double before = x[i];
      x[i] = before + step;
      const double above = loss();
      x[i] = before - step;
      const double below = loss();
      x[i] = before;
      BOOST_TEST(std::abs((above - below) / (2.0 * step) - gradient[i]) < 1e-7);
    }
  };
  check(q, dq);
  check(k, dk);
  check(v, dv);
  check(attention.sinks, dsinks);
}

BOOST_AUTO_TEST_CASE(forward) {
  for_each_case([](TestBackend& backend, DType dtype, const Shape& shape, const Spans& spans, const Scores& scores,
                   const std::string& label) {
    for (const DType out_dtype : output_dtypes(dtype)) {
      const Problem problem(shape, dtype, out_dtype, scores);
      naive::Values out, lse;
      problem.expect(out, lse, spans);
      problem.forward(backend, spans);
      check_close(problem.out(), out, stored_tolerance(backend, dtype, out_dtype), label);
      check_close(*problem.lse, lse, 1e-6, label);
    }
  });
}

BOOST_AUTO_TEST_CASE(calls_merge_and_the_sink_counts_once) {
  on_every_backend_and_dtype([](TestBackend& backend, DType dtype, const std::string& label) {
    for (const Scores& scores : kinds_of_scores) {
      for (const std::int64_t window : {1, 150}) {
        const Spans spans = far_keys(window);
        const Problem apart(far_shape, dtype, DType::float32, scores);
        naive::Values out, lse;
        apart.expect(out, lse, spans);
        apart.forward(backend, {spans[1]});
        apart.forward(backend, {spans[0]}, /*merge=*/true);
        check_close(apart.out(), out, attention_tolerance(backend, dtype), label_of(label, scores));
        check_close(*apart.lse, lse, 1e-6, label_of(label, scores));
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(a_sink_beyond_every_score_takes_all) {
  on_every_backend_and_dtype([](TestBackend& backend, DType dtype, const std::string& label) {
    const Problem problem({70, 70, 2, 1, 16}, dtype, dtype, {.has_sinks = true});
    set(*problem.sinks, 0, 0, 1000.0);
    set(*problem.sinks, 1, 0, -1000.0);
    problem.forward(backend, {{10, 50, 10, 50, 0, 0}});
    const Problem plain({70, 70, 2, 1, 16}, dtype, dtype);
    plain.forward(backend, {{10, 50, 10, 50, 0, 0}});
    for (std::int64_t row = 0; row < 70; ++row) {
      const bool is_inside = row >= 10 && row < 60;
      BOOST_TEST(get(*problem.lse, row, 0) == (is_inside ? 1000.0 : minus_infinity), label);
      BOOST_TEST(get(*problem.lse, row, 1) == get(*plain.lse, row, 1), label);
      for (std::int64_t d = 0; d < 16; ++d) {
        BOOST_TEST(get(problem.out(), row, d) == 0.0, label);
        BOOST_TEST(get(problem.out(), row, 16 + d) == get(plain.out(), row, 16 + d), label);
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(backward) {
  for_each_case([](TestBackend& backend, DType dtype, const Shape& shape, const Spans& spans, const Scores& scores,
                   const std::string& label) {
    const bool sees_one_key = spans.front().window == 1 || shape.rows == 1;
    if (sees_one_key && !scores.has_sinks) return;  // gradients of 0, to which no error can be compared
    const BackwardProblem problem(shape, dtype, spans, scores);
    const Gradients gradients(shape, dtype, dtype);
    naive::Values dq(problem.naive_out.size()), dk(read(gradients.dk()).size()), dv(dk.size());
    problem.expect_gradients(dq, dk, dv);
    problem.backward(backend, spans, gradients);
    const double tolerance = stored_tolerance(backend, dtype, dtype);
    check_close(gradients.dq(), dq, tolerance, label + " dq");
    check_close(gradients.dk(), dk, tolerance, label + " dk");
    check_close(gradients.dv(), dv, tolerance, label + " dv");
  });
}

BOOST_AUTO_TEST_CASE(gradients_of_sinks_add_up) {
  for_each_case([](TestBackend& backend, DType dtype, const Shape& shape, const Spans& spans, const Scores& scores,
                   const std::string& label) {
    if (!scores.has_sinks) return;
    const BackwardProblem problem(shape, dtype, spans, scores);
    const Owned dsinks = Owned(DType::float32, {shape.num_heads}).normal(8);
    naive::Values expected = read(*dsinks);
    problem.naive().sinks_backward(expected, problem.naive_out, problem.naive_lse, read(*problem.dout));
    backend->run(AttentionSinksBackward{*dsinks, *problem.sinks, *problem.lse, *problem.delta});
    check_close(*dsinks, expected, 2e-6, label);
  });
}

BOOST_AUTO_TEST_CASE(any_number_of_threads_gives_the_same_gradient_of_sinks) {
  constexpr std::int64_t num_tokens = 3000, num_heads = 37;
  const Owned sinks = Owned(DType::float32, {num_heads}).normal(1),
              delta = Owned(DType::float32, {num_tokens, num_heads}).normal(2);
  const Owned lse = Owned(DType::float32, {num_tokens, num_heads}).normal(3);
  std::array<std::vector<double>, 2> results;
  for (std::size_t run = 0; run < results.size(); ++run) {
    omp_set_num_threads(run == 0 ? 1 : 4);
    TestBackend backend(testable_isas().back());
    const Owned dsinks = Owned(DType::float32, {num_heads}).normal(4);
    backend->run(AttentionSinksBackward{*dsinks, *sinks, *lse, *delta});
    results[run] = read(*dsinks);
  }
  BOOST_TEST((results[0] == results[1]));
}

BOOST_AUTO_TEST_CASE(a_document_does_not_see_its_neighbours) {
  on_every_backend_and_dtype([](TestBackend& backend, DType dtype, const std::string& label) {
    const Problem problem({130, 130, 2, 1, 16}, dtype, dtype, {.softcap = 3.0F, .has_sinks = true});
    const Spans spans = with_window(documents({50, 1, 30, 49}), 20);
    problem.forward(backend, spans);
    const std::vector<double> before = read(problem.out().rows(50, 31));
    for (std::int64_t row = 0; row < 130; ++row) {
      if (row >= 50 && row < 81) continue;
      for (std::int64_t c = 0; c < problem.kv_storage->shape[1]; ++c) {
        set(*problem.kv_storage, row, c, std::numeric_limits<double>::quiet_NaN());
      }
    }
    problem.forward(backend, spans);
    BOOST_TEST((read(problem.out().rows(50, 31)) == before), label);
    BOOST_TEST(std::isnan(get(problem.out(), 0, 0)), label);
  });
}

BOOST_AUTO_TEST_CASE(sinks_in_a_call_that_merges_are_a_bug) {
  TestBackend backend(testable_isas().back());
  const Problem problem({10, 10, 2, 1, 16}, DType::float32, DType::float32, {.has_sinks = true});
  const auto plan = backend->plan_attention(documents({10}), 10, 10);
  BOOST_CHECK_THROW(backend->run(AttentionForward{problem.q(), problem.k(), problem.v(), problem.out(), *problem.lse,
                                                  1.0F, *plan, /*merge=*/true, 0.0F, *problem.sinks}),
                    std::logic_error);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft::ops::testing
