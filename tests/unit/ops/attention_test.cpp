// SPDX-License-Identifier: Apache-2.0
#include "unit/ops/attention_problem.hpp"

namespace sft::ops::testing {

BOOST_AUTO_TEST_SUITE(attention)

BOOST_AUTO_TEST_CASE(forward_of_packed_documents) {
  on_every_backend_and_dtype([](TestBackend& backend, DType dtype, const std::string& label) {
    for (const Shape& shape : shapes) {
      for (const DType out_dtype : output_dtypes(dtype)) {
        const Problem problem(shape, dtype, out_dtype);
        naive::Values out, lse;
        problem.expect(out, lse, documents_of(shape));
        problem.forward(backend, documents_of(shape));
        check_close(problem.out(), out, stored_tolerance(backend, dtype, out_dtype), label);
        check_close(*problem.lse, lse, 1e-6, label);
        BOOST_TEST(std::isnan(get(*problem.out_storage, 0, 0)));
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(a_window_hides_what_lies_further_back) {
  on_every_backend_and_dtype([](TestBackend& backend, DType dtype, const std::string& label) {
    for (const std::int64_t window : windows) {
      std::vector<std::pair<Shape, Spans>> cases = {{far_shape, far_keys(window)}};
      for (const Shape& shape : shapes) cases.emplace_back(shape, with_window(documents_of(shape), window));
      for (const auto& [shape, spans] : cases) {
        const Problem problem(shape, dtype, dtype);
        naive::Values out, lse;
        problem.expect(out, lse, spans);
        problem.forward(backend, spans);
        check_close(problem.out(), out, stored_tolerance(backend, dtype, dtype), label);
        check_close(*problem.lse, lse, 1e-6, label);
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(keys_out_of_a_windows_reach_are_not_read) {
  on_every_backend_and_dtype([](TestBackend& backend, DType dtype, const std::string& label) {
    const Problem problem({600, 600, 2, 1, 16}, dtype, dtype);
    const Spans spans = {{0, 600, 0, 600, 0, 0, 40}};
    problem.forward(backend, spans);
    const std::vector<double> before = read(problem.out().rows(512, 88));
    for (std::int64_t row = 0; row < 512 - 39; ++row) {
      for (std::int64_t c = 0; c < problem.kv_storage->shape[1]; ++c) {
        set(*problem.kv_storage, row, c, std::numeric_limits<double>::quiet_NaN());
      }
    }
    problem.forward(backend, spans);
    BOOST_TEST((read(problem.out().rows(512, 88)) == before), label);
    BOOST_TEST(std::isnan(get(problem.out(), 472, 0)), label);
  });
}

BOOST_AUTO_TEST_CASE(a_window_that_reaches_all_keys_changes_no_bit) {
  on_every_backend_and_dtype([](TestBackend& backend, DType dtype, const std::string& label) {
    const Problem problem({213, 213, 2, 2, 64}, dtype, dtype);
    const Spans spans = documents({1, 3, 64, 17, 128});
    problem.forward(backend, spans);
    const std::vector<double> before = read(problem.out());
    problem.forward(backend, with_window(spans, 128));
    BOOST_TEST((read(problem.out()) == before), label);
    problem.forward(backend, with_window(spans, 127));
    BOOST_TEST((read(problem.out()) != before), label);
  });
}

BOOST_AUTO_TEST_CASE(windowed_calls_merge_where_a_query_sees_nothing_of_one) {
  on_every_backend_and_dtype([](TestBackend& backend, DType dtype, const std::string& label) {
    for (const std::int64_t window : {1, 30, 90, 150, 200, 250}) {
      const Spans spans = far_keys(window);
      naive::Values out, lse;
      const Problem apart(far_shape, dtype, DType::float32);
      apart.expect(out, lse, spans);
      apart.forward(backend, {spans[0]});
      apart.forward(backend, {spans[1]}, /*merge=*/true);
      check_close(apart.out(), out, attention_tolerance(backend, dtype), label);
      check_close(*apart.lse, lse, 1e-6, label);
    }
  });
}

BOOST_AUTO_TEST_CASE(spans_of_two_calls_merge_to_those_of_one) {
  on_every_backend_and_dtype([](TestBackend& backend, DType dtype, const std::string& label) {
    const Spans spans = zigzag();
    naive::Values out, lse;
    const Problem together(zigzag_shape, dtype, DType::float32), apart(zigzag_shape, dtype, DType::float32);
    together.expect(out, lse, spans);
    together.forward(backend, spans);
    check_close(together.out(), out, attention_tolerance(backend, dtype), label);
    check_close(*together.lse, lse, 1e-6, label);
    apart.forward(backend, {spans[1], spans[3]});
    apart.forward(backend, {spans[0], spans[2]}, /*merge=*/true);
    check_close(apart.out(), out, attention_tolerance(backend, dtype), label);
    check_close(*apart.lse, lse, 1e-6, label);
  });
}

BOOST_AUTO_TEST_CASE(rows_without_a_span_become_zero_or_are_left_alone) {
  on_every_backend_and_dtype([](TestBackend& backend, DType dtype, const std::string& label) {
    const Spans spans = {{10, 20, 10, 20, 0, 0}};
    for (const bool merge : {false, true}) {
      Problem problem({100, 100, 2, 1, 8}, dtype, DType::float32);
      if (merge) {
        problem.out_storage.fill(5.0);
        problem.lse.fill(2.0);
      }
      problem.forward(backend, spans, merge);
      for (const std::int64_t row : {0, 9, 30, 99}) {
        BOOST_TEST(get(problem.out(), row, 3) == (merge ? 5.0 : 0.0), label);
        BOOST_TEST(get(*problem.lse, row, 1) == (merge ? 2.0 : minus_infinity), label);
      }
      BOOST_TEST(get(problem.out(), 10, 3) != (merge ? 5.0 : 0.0), label);
      BOOST_TEST(std::isfinite(get(problem.out(), 10, 3)), label);
    }
  });
}

BOOST_AUTO_TEST_CASE(a_document_does_not_see_its_neighbours) {
  on_every_backend_and_dtype([](TestBackend& backend, DType dtype, const std::string& label) {
    const Problem problem({130, 130, 2, 1, 16}, dtype, dtype);
    const Spans spans = documents({50, 31, 49});
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

namespace {

std::vector<std::pair<Shape, Spans>> backward_cases() {
  std::vector<std::pair<Shape, Spans>> cases;
  for (const Shape& shape : shapes) cases.emplace_back(shape, documents_of(shape));
  cases.emplace_back(zigzag_shape, zigzag());
  for (const std::int64_t window : windows) {
    if (window == 1) continue;  // queries that see one key have gradients of 0, to which no error can be compared
    cases.emplace_back(shapes[2], with_window(documents_of(shapes[2]), window));
    cases.emplace_back(far_shape, far_keys(window));
  }
  return cases;
}

}  // namespace

BOOST_AUTO_TEST_CASE(delta_is_the_product_of_output_and_its_gradient) {
  on_every_backend_and_dtype([](TestBackend& backend, DType dtype, const std::string& label) {
    for (const auto& [shape, spans] : backward_cases()) {
      const BackwardProblem problem(shape, dtype, spans);
      const Owned delta(DType::float32, {shape.rows, shape.num_heads});
      backend->run(AttentionDelta{*delta, problem.out(), *problem.dout});
      check_close(*delta, read(*problem.delta), tolerance_of(dtype), label);
    }
  });
}

BOOST_AUTO_TEST_CASE(backward_overwrites_in_either_dtype) {
  on_every_backend_and_dtype([](TestBackend& backend, DType dtype, const std::string& label) {
    for (const auto& [shape, spans] : backward_cases()) {
      const BackwardProblem problem(shape, dtype, spans);
      for (const DType q_dtype : output_dtypes(dtype)) {
        for (const DType kv_dtype : output_dtypes(dtype)) {
          const Gradients gradients(shape, q_dtype, kv_dtype);
          naive::Values dq(problem.naive_out.size()), dk(read(gradients.dk()).size()), dv(dk.size());
          problem.expect_gradients(dq, dk, dv);
          problem.backward(backend, spans, gradients);
          check_close(gradients.dq(), dq, stored_tolerance(backend, dtype, q_dtype), label + " dq", score_terms);
          check_close(gradients.dk(), dk, stored_tolerance(backend, dtype, kv_dtype), label + " dk", score_terms);
          check_close(gradients.dv(), dv, stored_tolerance(backend, dtype, kv_dtype), label + " dv");
          BOOST_TEST(std::isnan(get(*gradients.q_storage, 0, 0)));
          BOOST_TEST(std::isnan(get(*gradients.kv_storage, 0, shape.num_kv_heads * shape.head_dim)));
        }
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(backward_adds_where_asked) {
  on_every_backend_and_dtype([](TestBackend& backend, DType dtype, const std::string& label) {
    for (const auto& [shape, spans] : backward_cases()) {
      const BackwardProblem problem(shape, dtype, spans);
      for (const auto& [adds_to_dq, adds_to_dkv] : {std::pair{true, true}, {true, false}, {false, true}}) {
        Gradients gradients(shape, DType::float32, DType::float32);
        gradients.q_storage = Owned(DType::float32, {shape.rows, gradients.q_storage->shape[1]}).normal(4);
        gradients.kv_storage = Owned(DType::float32, {shape.key_rows, gradients.kv_storage->shape[1]}).normal(5);
        const auto before = [](const Tensor& x, bool adds) {
          return adds ? read(x) : naive::Values(static_cast<std::size_t>(x.num_elements()));
        };
        naive::Values dq = before(gradients.dq(), adds_to_dq), dk = before(gradients.dk(), adds_to_dkv);
        naive::Values dv = before(gradients.dv(), adds_to_dkv);
        problem.expect_gradients(dq, dk, dv);
        problem.backward(backend, spans, gradients, adds_to_dq, adds_to_dkv);
        check_close(gradients.dq(), dq, attention_tolerance(backend, dtype), label + " dq", score_terms);
        check_close(gradients.dk(), dk, attention_tolerance(backend, dtype), label + " dk", score_terms);
        check_close(gradients.dv(), dv, attention_tolerance(backend, dtype), label + " dv");
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(one_thread_and_several_give_the_same_bits) {
  for (const DType dtype : compute_dtypes) {
    std::vector<std::vector<double>> results[3];
    const Shape shape{2000, 2000, 2, 1, 256};
    const Spans spans = documents({900, 600, 400});
    // The last one's scratch is too small for the sums of every thread: every key and head has its own.
    for (const auto& [run, num_threads] : {std::pair{0, 1}, {1, 4}, {2, 4}}) {
      AttentionNeeds needs;
      if (run < 2) needs = {.num_keys = 2000, .longest_lane = 2000, .num_kv_heads = 8, .head_dim = 256};
      omp_set_num_threads(num_threads);
      TestBackend backend(testable_isas().back(), needs);
      const Problem problem(shape, dtype, dtype);
      const Owned dout = Owned(dtype, {shape.rows, shape.num_heads, shape.head_dim}).normal(3);
      const Owned delta(DType::float32, {shape.rows, shape.num_heads});
      const Gradients gradients(shape, dtype, dtype);
      problem.forward(backend, spans);
      backend->run(AttentionDelta{*delta, problem.out(), *dout});
      const auto plan = backend->plan_attention(spans, shape.rows, shape.key_rows);
      backend->run(AttentionBackward{problem.q(), problem.k(), problem.v(), *dout, *problem.lse, *delta, gradients.dq(),
                                     gradients.dk(), gradients.dv(), problem.scale, *plan});
      results[run] = {read(problem.out()), read(gradients.dq()), read(gradients.dk()), read(gradients.dv())};
    }
    BOOST_TEST((results[0] == results[1]));
    BOOST_TEST((results[0] == results[2]));
  }
}

BOOST_AUTO_TEST_CASE(misuse_is_a_bug) {
  omp_set_num_threads(1);
  TestBackend backend(testable_isas().back());
  const Shape shape{64, 64, 2, 1, 16};
  const Spans spans = documents({30, 34});
  const BackwardProblem problem(shape, DType::bf16, spans);
  const auto plan = backend->plan_attention(spans, 64, 64);
  const auto other = backend->plan_attention(spans, 65, 64);
  const auto forward = [&](const AttentionPlan& of, bool merge) {
    backend->run(AttentionForward{problem.q(), problem.k(), problem.v(), problem.out(), *problem.lse, 1.0f, of, merge});
  };
  BOOST_CHECK_THROW(forward(*other, false), std::logic_error);
  BOOST_CHECK_THROW(forward(*plan, true), std::logic_error);
  forward(*plan, false);
  const Gradients gradients(shape, DType::bf16, DType::bf16);
  BOOST_CHECK_THROW(problem.backward(backend, spans, gradients, true, false), std::logic_error);
  BOOST_CHECK_THROW(problem.backward(backend, spans, gradients, false, true), std::logic_error);
  problem.backward(backend, spans, gradients);
  BOOST_CHECK_THROW((void)backend->plan_attention(spans, 63, 64), std::logic_error);
  BOOST_CHECK_THROW((void)backend->plan_attention(spans, 64, 63), std::logic_error);
  const Spans interleaved = {{0, 10, 0, 10, 0, 0}, {20, 10, 20, 10, 0, 0}, {10, 10, 10, 10, 0, 1}};
  BOOST_CHECK_THROW((void)backend->plan_attention(interleaved, 64, 64), std::logic_error);
}

BOOST_AUTO_TEST_CASE(scratch_for_long_rows_has_to_be_there) {
  omp_set_num_threads(1);
  TestBackend small(testable_isas().back(), {});
  const Shape shape{8192, 8192, 1, 1, 256};
  const Spans spans = documents({8192});
  const Problem problem(shape, DType::bf16, DType::bf16);
  const Owned dout(DType::bf16, {shape.rows, 1, shape.head_dim}), delta(DType::float32, {shape.rows, 1});
  const Gradients gradients(shape, DType::bf16, DType::bf16);
  const auto plan = small->plan_attention(spans, shape.rows, shape.key_rows);
  BOOST_CHECK_THROW(small->run(AttentionBackward{problem.q(), problem.k(), problem.v(), *dout, *problem.lse, *delta,
                                                 gradients.dq(), gradients.dk(), gradients.dv(), problem.scale, *plan}),
                    std::logic_error);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft::ops::testing
