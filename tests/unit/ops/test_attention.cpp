#include "unit/ops/naive.hpp"
#include "unit/ops/support.hpp"

namespace sft::ops::testing {
namespace {

using Spans = std::vector<sequence::AttentionSpan>;

struct Shape {
  std::int64_t rows, key_rows, num_heads, num_kv_heads, head_dim;
};

/// Inputs and outputs of one attention; q, k and v lie in wider rows.
struct Problem {
  Shape shape;
  float scale;
  Owned q_storage, kv_storage, out, lse;

  Problem(const Shape& of, DType dtype)
      : shape(of),
        scale(1.0f / std::sqrt(static_cast<float>(of.head_dim))),
        q_storage(Owned(dtype, {of.rows, (of.num_heads + 1) * of.head_dim}).normal(1, 1.5)),
        kv_storage(Owned(dtype, {of.key_rows, (2 * of.num_kv_heads + 1) * of.head_dim}).normal(2, 1.5)),
        out(Owned(DType::float32, {of.rows, of.num_heads, of.head_dim}).fill(0.0)),
        lse(Owned(DType::float32, {of.rows, of.num_heads}).fill(-std::numeric_limits<double>::infinity())) {}

  [[nodiscard]] Tensor q() const { return heads(q_storage, 0, shape.num_heads); }
  [[nodiscard]] Tensor k() const { return heads(kv_storage, 1, shape.num_kv_heads); }
  [[nodiscard]] Tensor v() const { return heads(kv_storage, 1 + shape.num_kv_heads, shape.num_kv_heads); }
  [[nodiscard]] Tensor heads(const Owned& storage, std::int64_t first, std::int64_t count) const {
    return storage->columns(first * shape.head_dim, count * shape.head_dim)
        .view({storage->shape[0], count, shape.head_dim});
  }
  [[nodiscard]] naive::Attention naive() const { return {shape.num_heads, shape.num_kv_heads, shape.head_dim, scale}; }
  void forward(TestBackend& backend, const Spans& spans) {
    const auto plan = backend->plan_attention(spans);
    backend->attention_forward({q(), k(), v(), *out, *lse, scale, *plan});
  }
  /// The naive result over `spans` from nothing.
  void expect(naive::Values& expected_out, naive::Values& expected_lse, const Spans& spans) const {
    expected_out.assign(read(*out).size(), 0.0);
    expected_lse.assign(read(*lse).size(), 0.0);
    naive().forward(expected_out, expected_lse, read(q()), read(k()), read(v()), spans);
  }
};

/// AMX products round probabilities and their gradients to bf16; all others keep float32.
double attention_tolerance(const TestBackend& backend, DType dtype) {
  return backend.isa() == cpu::Isa::amx && dtype == DType::bf16 ? 0.004 : 5e-6;
}

/// Documents of the given lengths, one after the other; every second one in lane 1.
Spans documents(const std::vector<std::int32_t>& lengths) {
  Spans spans;
  std::int32_t begin = 0;
  for (const std::int32_t length : lengths) {
    spans.push_back({begin, length, begin, length, 0, static_cast<std::int32_t>(spans.size() % 2)});
    begin += length;
  }
  return spans;
}

const std::vector<Shape> shapes = {
    {1, 1, 1, 1, 8}, {213, 213, 4, 2, 16}, {213, 213, 2, 2, 64}, {70, 70, 5, 1, 256}, {150, 150, 3, 1, 10}};

Spans documents_of(const Shape& shape) {
  if (shape.rows == 1) return documents({1});
  if (shape.rows == 70) return documents({70});
  if (shape.rows == 150) return documents({64, 65, 20});  // the last row belongs to no document
  return documents({1, 3, 64, 17, 128});
}

/// Rectangles as a rank of a zigzag ring meets them: own keys, keys all visible, keys none of which is.
Spans zigzag() {
  return {{0, 70, 0, 70, 0, 0}, {0, 70, 70, 50, 1000, 0}, {80, 90, 130, 90, -20, 1}, {80, 90, 220, 30, -500, 1}};
}

}  // namespace

BOOST_AUTO_TEST_SUITE(attention)

BOOST_AUTO_TEST_CASE(forward_of_packed_documents) {
  on_every_backend_and_dtype([](TestBackend& backend, DType dtype, const std::string& label) {
    for (const Shape& shape : shapes) {
      Problem problem(shape, dtype);
      naive::Values out, lse;
      problem.expect(out, lse, documents_of(shape));
      problem.forward(backend, documents_of(shape));
      check_close(*problem.out, out, attention_tolerance(backend, dtype), label);
      check_close(*problem.lse, lse, 1e-6, label);
    }
  });
}

BOOST_AUTO_TEST_CASE(spans_of_two_calls_merge_to_those_of_one) {
  on_every_backend_and_dtype([](TestBackend& backend, DType dtype, const std::string& label) {
    const Shape shape{175, 255, 4, 2, 16};
    const Spans spans = zigzag();
    naive::Values out, lse;
    Problem together(shape, dtype), apart(shape, dtype);
    together.expect(out, lse, spans);
    together.forward(backend, spans);
    check_close(*together.out, out, attention_tolerance(backend, dtype), label);
    check_close(*together.lse, lse, 1e-6, label);
    apart.forward(backend, {spans[1], spans[3]});
    apart.forward(backend, {spans[0], spans[2]});
    check_close(*apart.out, out, attention_tolerance(backend, dtype), label);
    check_close(*apart.lse, lse, 1e-6, label);
  });
}

BOOST_AUTO_TEST_CASE(rows_without_a_span_are_left_alone) {
  on_every_backend([](TestBackend& backend) {
    Problem problem({100, 100, 2, 1, 8}, DType::float32);
    problem.out.fill(5.0);
    problem.lse.fill(2.0);
    problem.forward(backend, {{10, 20, 10, 20, 0, 0}});
    for (const std::int64_t row : {0, 9, 30, 99}) {
      BOOST_TEST(get(*problem.out, row, 3) == 5.0);
      BOOST_TEST(get(*problem.lse, row, 1) == 2.0);
    }
    BOOST_TEST(get(*problem.out, 10, 3) != 5.0);
  });
}

BOOST_AUTO_TEST_CASE(a_document_does_not_see_its_neighbours) {
  on_every_backend_and_dtype([](TestBackend& backend, DType dtype, const std::string& label) {
    Problem problem({130, 130, 2, 1, 16}, dtype);
    const Spans spans = documents({50, 31, 49});
    problem.forward(backend, spans);
    const std::vector<double> before = read(problem.out->rows(50, 31));
    for (std::int64_t row = 0; row < 130; ++row) {
      if (row >= 50 && row < 81) continue;
      for (std::int64_t c = 0; c < problem.kv_storage->shape[1]; ++c) {
        set(*problem.kv_storage, row, c, std::numeric_limits<double>::quiet_NaN());
      }
    }
    problem.out.fill(0.0);
    problem.lse.fill(-std::numeric_limits<double>::infinity());
    problem.forward(backend, spans);
    BOOST_TEST((read(problem.out->rows(50, 31)) == before), label);
    BOOST_TEST(std::isnan(get(*problem.out, 0, 0)), label);
  });
}

BOOST_AUTO_TEST_CASE(backward_of_documents_and_of_zigzag_spans) {
  on_every_backend_and_dtype([](TestBackend& backend, DType dtype, const std::string& label) {
    std::vector<std::pair<Shape, Spans>> cases;
    for (const Shape& shape : shapes) cases.emplace_back(shape, documents_of(shape));
    cases.emplace_back(Shape{175, 255, 4, 2, 16}, zigzag());
    for (const auto& [shape, spans] : cases) {
      Problem problem(shape, dtype);
      naive::Values out, lse;
      problem.expect(out, lse, spans);
      const Owned dout = Owned(dtype, {shape.rows, shape.num_heads, shape.head_dim}).normal(3);
      const Owned delta(DType::float32, {shape.rows, shape.num_heads});
      const Owned out_rounded(dtype, {shape.rows, shape.num_heads, shape.head_dim});
      for (std::int64_t t = 0; t < shape.rows; ++t) {
        for (std::int64_t h = 0; h < shape.num_heads; ++h) {
          set(*problem.lse, t, h, lse[t * shape.num_heads + h]);
          double sum = 0.0;
          for (std::int64_t d = 0; d < shape.head_dim; ++d) {
            const std::int64_t column = h * shape.head_dim + d;
            set(*out_rounded, t, column, out[t * shape.num_heads * shape.head_dim + column]);
            sum += out[t * shape.num_heads * shape.head_dim + column] * get(*dout, t, column);
          }
          set(*delta, t, h, sum);
        }
      }
      const Owned computed_delta(DType::float32, {shape.rows, shape.num_heads});
      backend->attention_delta(*computed_delta, *out_rounded, *dout);
      check_close(*computed_delta, read(*delta), tolerance_of(dtype), label);

      const Owned dq = Owned(DType::float32, {shape.rows, shape.num_heads, shape.head_dim}).normal(4);
      const Owned dk = Owned(DType::float32, {shape.key_rows, shape.num_kv_heads, shape.head_dim}).normal(5);
      const Owned dv = Owned(DType::float32, {shape.key_rows, shape.num_kv_heads, shape.head_dim}).normal(6);
      naive::Values expected_dq = read(*dq), expected_dk = read(*dk), expected_dv = read(*dv);
      problem.naive().backward(expected_dq, expected_dk, expected_dv, read(problem.q()), read(problem.k()),
                               read(problem.v()), out, lse, read(*dout), spans);
      const auto plan = backend->plan_attention(spans);
      backend->attention_backward(
          {problem.q(), problem.k(), problem.v(), *dout, *problem.lse, *delta, *dq, *dk, *dv, problem.scale, *plan});
      check_close(*dq, expected_dq, attention_tolerance(backend, dtype), label + " dq");
      check_close(*dk, expected_dk, attention_tolerance(backend, dtype), label + " dk");
      check_close(*dv, expected_dv, attention_tolerance(backend, dtype), label + " dv");
    }
  });
}

BOOST_AUTO_TEST_CASE(one_thread_and_several_give_the_same_bits) {
  std::vector<double> results[2];
  for (const int num_threads : {1, 4}) {
    omp_set_num_threads(num_threads);
    TestBackend backend(cpu::best_isa());
    Problem problem(shapes[1], DType::float32);
    problem.forward(backend, documents_of(shapes[1]));
    results[num_threads == 1 ? 0 : 1] = read(*problem.out);
  }
  BOOST_TEST((results[0] == results[1]));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft::ops::testing
