// SPDX-License-Identifier: Apache-2.0
#include "unit/ops/naive.hpp"
#include "unit/ops/support.hpp"

namespace sft::ops::testing {
namespace {

using Spans = std::vector<sequence::AttentionSpan>;

struct Shape {
  std::int64_t rows, key_rows, num_heads, num_kv_heads, head_dim;
};

constexpr double minus_infinity = -std::numeric_limits<double>::infinity();

/// `count` heads from head `first` on of rows of heads.
Tensor heads_of(const Owned& storage, std::int64_t first, std::int64_t count, std::int64_t head_dim) {
  return storage->columns(first * head_dim, count * head_dim).view({storage->shape[0], count, head_dim});
}

/// Inputs and outputs of one attention; q, k, v and out lie in wider rows. What is written is NaN at first.
struct Problem {
  Shape shape;
  float scale;
  Owned q_storage, kv_storage, out_storage, lse;

  /// Inputs have `dtype`, the output `out_dtype`.
  Problem(const Shape& of, DType dtype, DType out_dtype)
      : shape(of),
        scale(1.0f / std::sqrt(static_cast<float>(of.head_dim))),
        q_storage(Owned(dtype, {of.rows, (of.num_heads + 1) * of.head_dim}).normal(1, 1.5)),
        kv_storage(Owned(dtype, {of.key_rows, (2 * of.num_kv_heads + 1) * of.head_dim}).normal(2, 1.5)),
        out_storage(out_dtype, {of.rows, (of.num_heads + 1) * of.head_dim}),
        lse(DType::float32, {of.rows, of.num_heads}) {}

  [[nodiscard]] Tensor q() const { return heads_of(q_storage, 0, shape.num_heads, shape.head_dim); }
  [[nodiscard]] Tensor k() const { return heads_of(kv_storage, 1, shape.num_kv_heads, shape.head_dim); }
  [[nodiscard]] Tensor v() const {
    return heads_of(kv_storage, 1 + shape.num_kv_heads, shape.num_kv_heads, shape.head_dim);
  }
  [[nodiscard]] Tensor out() const { return heads_of(out_storage, 1, shape.num_heads, shape.head_dim); }
  [[nodiscard]] naive::Attention naive() const { return {shape.num_heads, shape.num_kv_heads, shape.head_dim, scale}; }
  void forward(TestBackend& backend, const Spans& spans, bool merge = false) const {
    const auto plan = backend->plan_attention(spans, shape.rows, shape.key_rows);
    backend->attention_forward({q(), k(), v(), out(), *lse, scale, *plan, merge});
  }
  /// The naive result over `spans` from nothing.
  void expect(naive::Values& expected_out, naive::Values& expected_lse, const Spans& spans) const {
    expected_out.assign(static_cast<std::size_t>(shape.rows * shape.num_heads * shape.head_dim), 0.0);
    expected_lse.assign(static_cast<std::size_t>(shape.rows * shape.num_heads), 0.0);
    naive().forward(expected_out, expected_lse, read(q()), read(k()), read(v()), spans);
  }
};

/// Gradients of one attention in wider rows, NaN at first.
struct Gradients {
  std::int64_t num_heads, num_kv_heads, head_dim;
  Owned q_storage, kv_storage;

  Gradients(const Shape& shape, DType q_dtype, DType kv_dtype)
      : num_heads(shape.num_heads),
        num_kv_heads(shape.num_kv_heads),
        head_dim(shape.head_dim),
        q_storage(q_dtype, {shape.rows, (shape.num_heads + 1) * shape.head_dim}),
        kv_storage(kv_dtype, {shape.key_rows, (2 * shape.num_kv_heads + 1) * shape.head_dim}) {}

  [[nodiscard]] Tensor dq() const { return heads_of(q_storage, 1, num_heads, head_dim); }
  [[nodiscard]] Tensor dk() const { return heads_of(kv_storage, 0, num_kv_heads, head_dim); }
  [[nodiscard]] Tensor dv() const { return heads_of(kv_storage, 1 + num_kv_heads, num_kv_heads, head_dim); }
};

/// AMX products round probabilities and their gradients to bf16; all others keep float32.
double attention_tolerance(const TestBackend& backend, DType dtype) {
  return backend.isa() == cpu::Isa::amx && dtype == DType::bf16 ? 0.004 : 5e-6;
}

/// The same where the result is stored with `out` rounding.
double stored_tolerance(const TestBackend& backend, DType dtype, DType out) {
  return std::max(attention_tolerance(backend, dtype), out == DType::bf16 ? tolerance_of(out) : 0.0);
}

/// Documents of the given lengths, one after the other; two neighbours share a lane.
Spans documents(const std::vector<std::int64_t>& lengths) {
  Spans spans;
  std::int64_t begin = 0;
  for (const std::int64_t length : lengths) {
    spans.push_back({begin, length, begin, length, 0, std::ssize(spans) / 2});
    begin += length;
  }
  return spans;
}

/// Rows of 213 with a tail outside every document, and one row of one token.
const std::vector<Shape> shapes = {
    {1, 1, 1, 1, 8}, {215, 215, 4, 2, 16}, {213, 213, 2, 2, 64}, {70, 70, 5, 1, 256}, {150, 150, 3, 1, 10}};

Spans documents_of(const Shape& shape) {
  if (shape.rows == 1) return documents({1});
  if (shape.rows == 70) return documents({70});
  if (shape.rows == 150) return documents({64, 65, 20});
  return documents({1, 3, 64, 17, 128});
}

/// Rectangles as a rank of a zigzag ring meets them: own keys, keys all visible, keys none of which is.
const Shape zigzag_shape{175, 255, 4, 2, 16};
Spans zigzag() {
  return {{0, 70, 0, 70, 0, 0}, {0, 70, 70, 50, 1000, 0}, {80, 90, 130, 90, -20, 1}, {80, 90, 220, 30, -500, 1}};
}

/// The spans of a list, with a window.
Spans with_window(Spans spans, std::int64_t window) {
  for (sequence::AttentionSpan& span : spans) span.window = window;
  return spans;
}

/// Windows of one token, shorter than a tile of the kernels, a little longer, and longer than some documents.
constexpr std::int64_t windows[] = {1, 2, 31, 64, 65, 100, 250};

/// What a rank sees of earlier keys of a document, of its tokens from 0 and from 190 on; its queries are those from 300
/// on.
const Shape far_shape{140, 210, 4, 2, 16};
Spans far_keys(std::int64_t window) { return {{5, 130, 0, 110, 300, 0, window}, {5, 130, 110, 90, 110, 0, window}}; }

/// float32, and the compute dtype where that is another.
std::vector<DType> output_dtypes(DType compute) {
  return compute == DType::float32 ? std::vector{DType::float32} : std::vector{DType::float32, compute};
}

}  // namespace

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

/// A backward pass with what the forward pass leaves to it, from the naive one.
struct BackwardProblem : Problem {
  Owned dout, delta;
  naive::Values naive_out, naive_lse;

  BackwardProblem(const Shape& of, DType dtype, const Spans& spans)
      : Problem(of, dtype, dtype),
        dout(Owned(dtype, {of.rows, of.num_heads, of.head_dim}).normal(3)),
        delta(DType::float32, {of.rows, of.num_heads}) {
    expect(naive_out, naive_lse, spans);
    for (std::int64_t t = 0; t < of.rows; ++t) {
      for (std::int64_t h = 0; h < of.num_heads; ++h) {
        set(*lse, t, h, naive_lse[t * of.num_heads + h]);
        double sum = 0.0;
        for (std::int64_t d = 0; d < of.head_dim; ++d) {
          const std::int64_t column = h * of.head_dim + d;
          set(out(), t, column, naive_out[t * of.num_heads * of.head_dim + column]);
          sum += naive_out[t * of.num_heads * of.head_dim + column] * get(*dout, t, column);
        }
        set(*delta, t, h, sum);
      }
    }
  }

  void backward(TestBackend& backend, const Spans& spans, const Gradients& gradients, bool accumulate_dq = false,
                bool accumulate_dkv = false) const {
    const auto plan = backend->plan_attention(spans, shape.rows, shape.key_rows);
    backend->attention_backward({q(), k(), v(), *dout, *lse, *delta, gradients.dq(), gradients.dk(), gradients.dv(),
                                 scale, *plan, accumulate_dq, accumulate_dkv});
  }
  /// Adds the naive gradients to what the arguments hold.
  void expect_gradients(naive::Values& dq, naive::Values& dk, naive::Values& dv, const Spans& spans) const {
    naive().backward(dq, dk, dv, read(q()), read(k()), read(v()), naive_out, naive_lse, read(*dout), spans);
  }
};

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
      backend->attention_delta(*delta, problem.out(), *problem.dout);
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
          problem.expect_gradients(dq, dk, dv, spans);
          problem.backward(backend, spans, gradients);
          check_close(gradients.dq(), dq, stored_tolerance(backend, dtype, q_dtype), label + " dq");
          check_close(gradients.dk(), dk, stored_tolerance(backend, dtype, kv_dtype), label + " dk");
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
        problem.expect_gradients(dq, dk, dv, spans);
        problem.backward(backend, spans, gradients, adds_to_dq, adds_to_dkv);
        check_close(gradients.dq(), dq, attention_tolerance(backend, dtype), label + " dq");
        check_close(gradients.dk(), dk, attention_tolerance(backend, dtype), label + " dk");
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
      TestBackend backend(cpu::best_isa(), needs);
      const Problem problem(shape, dtype, dtype);
      const Owned dout = Owned(dtype, {shape.rows, shape.num_heads, shape.head_dim}).normal(3);
      const Owned delta(DType::float32, {shape.rows, shape.num_heads});
      const Gradients gradients(shape, dtype, dtype);
      problem.forward(backend, spans);
      backend->attention_delta(*delta, problem.out(), *dout);
      const auto plan = backend->plan_attention(spans, shape.rows, shape.key_rows);
      backend->attention_backward({problem.q(), problem.k(), problem.v(), *dout, *problem.lse, *delta, gradients.dq(),
                                   gradients.dk(), gradients.dv(), problem.scale, *plan});
      results[run] = {read(problem.out()), read(gradients.dq()), read(gradients.dk()), read(gradients.dv())};
    }
    BOOST_TEST((results[0] == results[1]));
    BOOST_TEST((results[0] == results[2]));
  }
}

BOOST_AUTO_TEST_CASE(misuse_is_a_bug) {
  omp_set_num_threads(1);
  TestBackend backend(cpu::best_isa());
  const Shape shape{64, 64, 2, 1, 16};
  const Spans spans = documents({30, 34});
  const BackwardProblem problem(shape, DType::bf16, spans);
  const auto plan = backend->plan_attention(spans, 64, 64);
  const auto other = backend->plan_attention(spans, 65, 64);
  const auto forward = [&](const AttentionPlan& of, bool merge) {
    backend->attention_forward({problem.q(), problem.k(), problem.v(), problem.out(), *problem.lse, 1.0f, of, merge});
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
  TestBackend small(cpu::best_isa(), {});
  const Shape shape{8192, 8192, 1, 1, 256};
  const Spans spans = documents({8192});
  const Problem problem(shape, DType::bf16, DType::bf16);
  const Owned dout(DType::bf16, {shape.rows, 1, shape.head_dim}), delta(DType::float32, {shape.rows, 1});
  const Gradients gradients(shape, DType::bf16, DType::bf16);
  const auto plan = small->plan_attention(spans, shape.rows, shape.key_rows);
  BOOST_CHECK_THROW(small->attention_backward({problem.q(), problem.k(), problem.v(), *dout, *problem.lse, *delta,
                                               gradients.dq(), gradients.dk(), gradients.dv(), problem.scale, *plan}),
                    std::logic_error);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft::ops::testing
