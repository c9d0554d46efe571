// SPDX-License-Identifier: Apache-2.0
// Products beyond the limits of a library, which are set so low that small ones are. The emulated library adds up terms
// in one order whatever the shape is, so cuts of rows and columns change no bit; real ones may take another algorithm.

#include <boost/test/unit_test.hpp>
#include <functional>
#include <string>
#include <vector>

#include "emulation/ops/support.hpp"
#include "ops/cuda/grouped_matmul.hpp"
#include "ops/cuda/matmul.hpp"
#include "ops/cuda/planning.hpp"
#include "ops/views/tensor.hpp"
#include "runtime/stream_queue.hpp"

namespace sft::ops::testing {

BOOST_AUTO_TEST_SUITE(product_blocks)

namespace {

struct Form {
  std::int64_t m, n, k;
  bool transpose_a = false, transpose_b = false, accumulate = false, has_bias = false;
  DType dtype = DType::bf16, c_dtype = DType::float32;
  Layout layout = {};
};

/// The operands of a product.
struct Product {
  explicit Product(const Form& f)
      : form(f),
        a(Twin(f.dtype, {f.transpose_a ? f.k : f.m, f.transpose_a ? f.m : f.k}, f.layout).normal(1)),
        b(Twin(f.dtype, {f.transpose_b ? f.n : f.k, f.transpose_b ? f.k : f.n}, f.layout).normal(2)),
        c(Twin(f.c_dtype, {f.m, f.n}, f.layout).normal(3)),
        bias(Twin(f.c_dtype, {f.n}).normal(4)) {}

  [[nodiscard]] Matmul on_gpu() const {
    return {.a = a.gpu(),
            .b = b.gpu(),
            .c = c.gpu(),
            .transpose_a = form.transpose_a,
            .transpose_b = form.transpose_b,
            .accumulate = form.accumulate,
            .bias = form.has_bias ? bias.gpu() : Tensor()};
  }
  [[nodiscard]] std::vector<Operand> operands() { return {in(a), in(b), in(bias), out(c)}; }

  Form form;
  Twin a, b, c, bias;
};

using Queue = std::function<void(cudaStream_t, cuda::Workspace)>;

/// All memory of the operands after what `queue` queues.
std::vector<std::vector<std::byte>> memory_after(const std::vector<Operand>& operands, const Queue& queue) {
  const auto scratch = Backends::get().allocate(cuda::scratch_bytes);
  return run_on_gpu(operands, [&](Backend& ops, auto) {
    queue(static_cast<cudaStream_t>(ops.stream().native()), {scratch.get(), cuda::scratch_bytes});
    ops.stream().synchronize();
  });
}

Queue of_engine(const Product& product, const ProductLimits& limits) {
  return [&product, limits](cudaStream_t stream, cuda::Workspace scratch) {
    cuda::MatmulEngine(stream, limits).run(product.on_gpu(), scratch);
  };
}

/// The numbers of calls of the library.
long calls_of(Product& product, const ProductLimits& limits) {
  long calls = 0;
  (void)memory_after(product.operands(), [&](cudaStream_t stream, cuda::Workspace scratch) {
    const long before = emulation::host_counts().products;
    cuda::MatmulEngine(stream, limits).run(product.on_gpu(), scratch);
    calls = emulation::host_counts().products - before;
  });
  return calls;
}

/// Terms [begin, begin + count) of the product, which are added to c unless they are the first.
Matmul terms_of(const Product& product, std::int64_t begin, std::int64_t count) {
  Matmul part = product.on_gpu();
  part.a = part.transpose_a ? part.a.rows(begin, count) : part.a.columns(begin, count);
  part.b = part.transpose_b ? part.b.columns(begin, count) : part.b.rows(begin, count);
  if (begin == 0) return part;
  part.accumulate = true;
  part.bias = {};
  return part;
}

const std::vector<Form>& forms() {
  static const std::vector<Form> all = {
      {.m = 40, .n = 24, .k = 16},
      {.m = 40, .n = 24, .k = 16, .transpose_a = true, .has_bias = true, .c_dtype = DType::bf16},
      {.m = 33, .n = 21, .k = 17, .transpose_b = true, .accumulate = true, .layout = {.gap = 3, .offset = 1}},
      {.m = 33, .n = 21, .k = 17, .transpose_a = true, .transpose_b = true, .has_bias = true, .dtype = DType::float32}};
  return all;
}

/// The products of three experts, whose weights lie in one matrix.
struct Experts {
  static constexpr std::int64_t num_experts = 3, rows = 16, inner = 16, outer = 24;

  [[nodiscard]] std::vector<Matmul> products() const {
    std::vector<Matmul> all;
    for (std::int64_t e = 0; e < num_experts; ++e) {
      all.push_back({.a = x.gpu().rows(e * rows, rows),
                     .b = weights.gpu().rows(e * outer, outer),
                     .c = y.gpu().rows(e * rows, rows),
                     .transpose_b = true});
    }
    return all;
  }
  [[nodiscard]] std::vector<Operand> operands() { return {in(x), in(weights), out(y)}; }

  Twin x = Twin(DType::bf16, {num_experts * rows, inner}).normal(1),
       weights = Twin(DType::bf16, {num_experts * outer, inner}).normal(2),
       y = Twin(DType::bf16, {num_experts * rows, outer});
};

}  // namespace

BOOST_AUTO_TEST_CASE(rows_and_columns_that_are_cut_change_no_bit) {
  for (const Form& form : forms()) {
    Product product(form);
    const auto whole = memory_after(product.operands(), of_engine(product, {}));
    for (const ProductLimits limits : {ProductLimits{.max_rows = 16}, ProductLimits{.max_rows = 7}}) {
      BOOST_TEST(calls_of(product, limits) > 3);
      BOOST_TEST((memory_after(product.operands(), of_engine(product, limits)) == whole),
                 form.m << " x " << form.n << " in blocks of " << limits.max_rows);
    }
  }
}

// Where a span is too long, rows of c and of a are cut, or columns of c that are rows of b.
BOOST_AUTO_TEST_CASE(spans_that_are_cut_change_no_bit) {
  for (const Form& form : {Form{.m = 64, .n = 8, .k = 8}, Form{.m = 8, .n = 64, .k = 8, .transpose_b = true}}) {
    Product product(form);
    const ProductLimits limits{.max_span = 150};
    BOOST_TEST(calls_of(product, limits) > 3);
    const auto whole = memory_after(product.operands(), of_engine(product, {}));
    BOOST_TEST((memory_after(product.operands(), of_engine(product, limits)) == whole));
  }
}

BOOST_AUTO_TEST_CASE(a_depth_that_is_cut_is_a_sequence_of_products_that_add_up) {
  for (const bool accumulate : {false, true}) {
    for (const bool has_bias : {false, true}) {
      // a^T b: a of 300 x 24 and b of 300 x 16, of which 2000 elements are 83 rows.
      Product product(
          {.m = 24, .n = 16, .k = 300, .transpose_a = true, .accumulate = accumulate, .has_bias = has_bias});
      const ProductLimits limits{.max_span = 2000};
      const std::int64_t depth = block_of(product.on_gpu(), limits).k;
      BOOST_TEST_REQUIRE(depth < 150);
      const auto in_parts = memory_after(product.operands(), [&](cudaStream_t stream, cuda::Workspace scratch) {
        cuda::MatmulEngine engine(stream);
        for (std::int64_t term = 0; term < product.form.k; term += depth) {
          engine.run(terms_of(product, term, std::min(depth, product.form.k - term)), scratch);
        }
      });
      BOOST_TEST(calls_of(product, limits) == (product.form.k + depth - 1) / depth);
      BOOST_TEST((memory_after(product.operands(), of_engine(product, limits)) == in_parts));
      BOOST_TEST((memory_after(product.operands(), of_engine(product, {})) != in_parts), "sums of other parts");
    }
  }
}

BOOST_AUTO_TEST_CASE(groups_beyond_the_limits_are_left_to_products_one_by_one) {
  Experts experts;
  const auto whole = memory_after(experts.operands(), [&](cudaStream_t stream, cuda::Workspace scratch) {
    BOOST_TEST(cuda::GroupedMatmulEngine(stream).run(experts.products(), scratch));
  });
  for (const ProductLimits limits :
       {ProductLimits{.max_rows = 15}, ProductLimits{.max_span = Experts::rows * Experts::outer - 1}}) {
    const auto cut = memory_after(experts.operands(), [&](cudaStream_t stream, cuda::Workspace scratch) {
      const long before = emulation::host_counts().products;
      BOOST_TEST(!cuda::GroupedMatmulEngine(stream, limits).run(experts.products(), scratch));
      BOOST_TEST(emulation::host_counts().products == before);
      cuda::MatmulEngine engine(stream, limits);
      for (const Matmul& product : experts.products()) engine.run(product, scratch);
      BOOST_TEST(emulation::host_counts().products - before > Experts::num_experts);
    });
    BOOST_TEST((cut == whole));
  }
  // As many as the limits say are within them.
  const ProductLimits exact{.max_span = Experts::rows * Experts::outer, .max_rows = Experts::outer};
  (void)memory_after(experts.operands(), [&](cudaStream_t stream, cuda::Workspace scratch) {
    BOOST_TEST(cuda::GroupedMatmulEngine(stream, exact).run(experts.products(), scratch));
  });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft::ops::testing
