// SPDX-License-Identifier: Apache-2.0
// How many calls the products of many experts are, and what becomes of them without the library for groups. The
// products themselves are compared in experts_test.cpp.
#include <cstdlib>

#include "ops/support.hpp"
#include "runtime/stream_queue.hpp"

namespace sft::ops::testing {

namespace {

constexpr std::int64_t num_experts = 128, rows_of_expert = 3, inner = 16, outer = 24;

/// Operands of 128 experts of three rows each, some of none.
struct Products {
  explicit Products(DType dtype_of_all, std::int64_t columns = outer, Layout layout = {})
      : x(Twin(dtype_of_all, {num_experts * rows_of_expert, inner}).normal(1)),
        y(dtype_of_all, {num_experts * rows_of_expert, columns}, layout),
        weights(Twin(dtype_of_all, {num_experts, columns, inner}).normal(2)),
        biases(Twin(dtype_of_all, {num_experts, columns}, layout).normal(3)),
        gradient(Twin(DType::float32, {num_experts, columns, inner}).filled(0.5)),
        dy(Twin(dtype_of_all, {num_experts * rows_of_expert, columns}).normal(4)),
        dx(dtype_of_all, {num_experts * rows_of_expert, inner}) {
    for (std::int64_t e = 0; e <= num_experts; ++e) {
      // Of three experts one has the rows of two others, one has none.
      const std::int64_t shift = e % 3 == 1 ? rows_of_expert : 0;
      offsets.push_back(static_cast<std::int32_t>(std::min(e * rows_of_expert + shift, num_experts * rows_of_expert)));
    }
  }

  void forward(Backend& ops, const auto& of, bool has_bias = false) {
    ops.run(GroupedMatmul{.a = of(x),
                          .b = of(weights),
                          .c = of(y),
                          .offsets = offsets,
                          .transpose_b = true,
                          .bias = has_bias ? of(biases) : Tensor()});
  }
  void input_gradient(Backend& ops, const auto& of) {
    ops.run(GroupedMatmul{.a = of(dy), .b = of(weights), .c = of(dx), .offsets = offsets});
  }
  void weight_gradient(Backend& ops, const auto& of) {
    ops.run(GroupedWeightGradient{.dweight = of(gradient), .x = of(dy), .y = of(x), .offsets = offsets});
  }
  [[nodiscard]] long num_groups() const {
    long count = 0;
    for (std::size_t e = 0; e + 1 < offsets.size(); ++e) count += offsets[e] < offsets[e + 1] ? 1 : 0;
    return count;
  }
  [[nodiscard]] std::vector<Operand> operands() {
    return {in(x), in(weights), in(biases), in(dy), out(y), out(dx), out(gradient)};
  }

  std::vector<std::int32_t> offsets;
  Twin x, y, weights, biases, gradient, dy, dx;
};

/// Calls of the libraries, kernels and waits that `queue` makes on the CUDA backend.
struct Calls {
  long products, launches, synchronizations, device_allocations;
  bool operator==(const Calls&) const = default;
};
std::ostream& operator<<(std::ostream& to, const Calls& calls) {
  return to << calls.products << " products, " << calls.launches << " kernels, " << calls.synchronizations << " waits, "
            << calls.device_allocations << " allocations";
}

template <class Queue>
Calls calls_of(Products& products, Queue queue) {
  Calls calls{};
  const auto counted = [&](Backend& ops, auto of) {
    const emulation::HostCounts before = emulation::host_counts();
    queue(ops, of);
    const emulation::HostCounts after = emulation::host_counts();
    calls = {after.products - before.products, after.launches - before.launches,
             after.synchronizations - before.synchronizations, after.device_allocations - before.device_allocations};
  };
  (void)run_on_gpu(products.operands(), counted);
  return calls;
}

/// Of a fresh backend, in a process whose library for groups is as SFT_EMULATED_CUBLAS says.
Calls calls_where(const char* state, Products& products) {
  setenv("SFT_EMULATED_CUBLAS", state, 1);
  const auto gpu = device::make_device(device::Kind::cuda);
  const auto stream = gpu->make_stream();
  const auto backend = make_backend(*gpu, *stream);
  const std::size_t bytes = ops::workspace_bytes(device::Kind::cuda, 1, Shapes{.tokens = 1, .hidden = 1, .vocab = 1});
  const device::Device::Block workspace = gpu->allocate(bytes);
  backend->set_workspace(Tensor(workspace.get(), DType::bf16, {static_cast<std::int64_t>(bytes / 2)}));
  const emulation::HostCounts before = emulation::host_counts();
  products.forward(*backend, [](const Twin& twin) { return twin.gpu(); });
  const emulation::HostCounts after = emulation::host_counts();
  stream->synchronize();
  unsetenv("SFT_EMULATED_CUBLAS");
  return {after.products - before.products, after.launches - before.launches,
          after.synchronizations - before.synchronizations, after.device_allocations - before.device_allocations};
}

}  // namespace

BOOST_AUTO_TEST_SUITE(grouped_products)

BOOST_AUTO_TEST_CASE(of_many_experts_are_one_call) {
  for (const DType dtype : compute_dtypes) {
    Products products(dtype);
    const long each = products.num_groups();
    BOOST_TEST_REQUIRE(each > 80);
    // One kernel writes the addresses; with biases twice as many bytes, and one that fills them in.
    const auto forward = [&](Backend& ops, auto of) { products.forward(ops, of); };
    const auto with_bias = [&](Backend& ops, auto of) { products.forward(ops, of, /*has_bias=*/true); };
    const auto back = [&](Backend& ops, auto of) { products.input_gradient(ops, of); };
    const auto weights = [&](Backend& ops, auto of) { products.weight_gradient(ops, of); };
    BOOST_TEST(calls_of(products, forward) == (Calls{1, 1, 0, 0}));
    BOOST_TEST(calls_of(products, with_bias) == (Calls{1, 2, 0, 0}));
    BOOST_TEST(calls_of(products, back) == (Calls{1, 1, 0, 0}));
    // Float32 sums of bf16 are not in the library's table.
    BOOST_TEST(calls_of(products, weights) == (dtype == DType::float32 ? Calls{1, 1, 0, 0} : Calls{each, 0, 0, 0}));
  }
}

BOOST_AUTO_TEST_CASE(of_rows_that_are_not_aligned_run_one_by_one) {
  Products odd(DType::bf16, 9);
  const auto forward = [&](Backend& ops, auto of) { odd.forward(ops, of); };
  BOOST_TEST(calls_of(odd, forward) == (Calls{odd.num_groups(), 0, 0, 0}));
}

BOOST_AUTO_TEST_CASE(run_one_by_one_where_the_library_is_missing_or_old) {
  for (const char* state : {"missing", "old"}) {
    Products products(DType::bf16);
    BOOST_TEST(calls_where(state, products) == (Calls{products.num_groups(), 0, 0, 0}));
  }
  Products products(DType::bf16);
  BOOST_TEST(calls_where("new", products) == (Calls{1, 1, 0, 0}));
}

BOOST_AUTO_TEST_CASE(are_those_of_cpus) {
  for (const DType dtype : compute_dtypes) {
    for (const Layout layout : flat_layouts) {
      Products products(dtype, outer, layout);
      check(std::string("products of 128 experts in ") + name_of(dtype), products.operands(),
            [&](Backend& ops, auto of) {
              products.forward(ops, of, /*has_bias=*/true);
              products.input_gradient(ops, of);
              products.weight_gradient(ops, of);
            });
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft::ops::testing
