// SPDX-License-Identifier: Apache-2.0
#include <boost/test/unit_test.hpp>

#include <stdexcept>
#include <string>
#include <vector>

#include "sft/core/error.hpp"
#include "sft/device/factory.hpp"
#include "sft/machine/node.hpp"
#include "sft/ops/factory.hpp"

namespace sft::ops {
namespace {

/// A device of another kind; nothing else of it is ever asked.
class CudaDevice final : public device::Device {
 public:
  [[nodiscard]] device::Kind kind() const override { return device::Kind::cuda; }
  [[nodiscard]] std::string description() const override { return "none"; }
  [[nodiscard]] Block allocate(std::size_t, device::Space) override { return {}; }
  [[nodiscard]] std::unique_ptr<device::Stream> make_stream(device::Priority) override { return {}; }
  [[nodiscard]] std::unique_ptr<device::Event> make_event() override { return {}; }
  void copy(void*, const void*, std::size_t, device::Stream&) override {}
  void fill_zero(void*, std::size_t, device::Stream&) override {}
};

}  // namespace

BOOST_AUTO_TEST_CASE(makes_a_cpu_backend_on_the_given_stream) {
  const auto device = device::make_device(device::Kind::cpu);
  const auto stream = device->make_stream();
  const auto backend = make_backend(*device, *stream);
  BOOST_TEST(&backend->stream() == stream.get());
  BOOST_TEST(ops::is_built(device::Kind::cpu));
  BOOST_TEST(std::string(cpu_instruction_set()).size() > 0u);
}

BOOST_AUTO_TEST_CASE(products_let_the_communication_of_other_streams_progress) {
  class Counting final : public device::Pending {
   public:
    explicit Counting(int& num_tests) : num_tests_(num_tests) {}
    bool test() override { return ++num_tests_ > 100; }

   private:
    int& num_tests_;
  };
  const auto device = device::make_device(device::Kind::cpu);
  const auto compute = device->make_stream();
  const auto communication = device->make_stream(device::Priority::communication);
  const auto backend = make_backend(*device, *compute);
  const std::size_t num_bytes = workspace_bytes(device::Kind::cpu, machine::num_threads(), {});
  std::vector<float> workspace(num_bytes / sizeof(float)), a(4, 1.0F), c(4);
  backend->set_workspace(Tensor(workspace.data(), DType::float32, {std::ssize(workspace)}));
  int num_tests = 0;
  communication->push(std::make_unique<Counting>(num_tests));
  const int num_tests_before = num_tests;
  const Tensor square(a.data(), DType::float32, {2, 2});
  backend->run(Matmul{.a = square, .b = square, .c = Tensor(c.data(), DType::float32, {2, 2})});
  BOOST_TEST(num_tests == num_tests_before + 1);
  communication->synchronize();
}

BOOST_AUTO_TEST_CASE(a_workspace_grows_with_threads_and_shapes) {
  const auto bytes = [](int num_threads, const Shapes& shapes) {
    return workspace_bytes(device::Kind::cpu, num_threads, shapes);
  };
  const Shapes small{.tokens = 64, .hidden = 64, .q_heads = 2, .kv_heads = 1, .head_dim = 32, .mlp = 128, .vocab = 272};
  Shapes wide = small;
  wide.hidden = std::int64_t{1} << 20;
  BOOST_TEST(bytes(1, small) > 0u);
  BOOST_TEST(bytes(8, small) > bytes(1, small));
  // A converted row weight, and one row of column sums behind it.
  BOOST_TEST(bytes(1, wide) >= 2 * static_cast<std::size_t>(wide.hidden) * sizeof(float));
  const AttentionNeeds long_rows{.num_keys = 1 << 20, .longest_lane = 1 << 18, .num_kv_heads = 8, .head_dim = 128};
  BOOST_TEST(workspace_bytes(device::Kind::cpu, 1, small, long_rows) > bytes(1, small));
  Shapes many_heads = small;
  many_heads.q_heads = std::int64_t{1} << 15;
  BOOST_TEST(bytes(1, many_heads) >=
             static_cast<std::size_t>(many_heads.q_heads * many_heads.head_dim) * sizeof(float));
}

BOOST_AUTO_TEST_CASE(an_op_on_the_planned_workspace_runs_and_on_a_smaller_one_says_so) {
  const Shapes wide{.tokens = 3, .hidden = std::int64_t{1} << 19};
  const auto device = device::make_device(device::Kind::cpu);
  const auto stream = device->make_stream();
  const auto backend = make_backend(*device, *stream);
  const auto run = [&](const Shapes& planned) {
    const auto num_bytes =
        static_cast<std::int64_t>(workspace_bytes(device::Kind::cpu, machine::num_threads(), planned));
    std::vector<float> workspace(static_cast<std::size_t>(num_bytes) / sizeof(float));
    std::vector<float> dbias(static_cast<std::size_t>(wide.hidden)),
        dy(static_cast<std::size_t>(3 * wide.hidden), 1.0F);
    backend->set_workspace(Tensor(workspace.data(), DType::float32, {std::ssize(workspace)}));
    backend->run(BiasBackward{Tensor(dbias.data(), DType::float32, {wide.hidden}),
                              Tensor(dy.data(), DType::float32, {3, wide.hidden})});
    return dbias.back();
  };
  BOOST_TEST(run(wide) == 3.0F);
  if (workspace_bytes(device::Kind::cpu, machine::num_threads(), {}) <
      static_cast<std::size_t>(wide.hidden) * sizeof(float)) {
    BOOST_CHECK_THROW(run({}), std::logic_error);
  }
}

BOOST_AUTO_TEST_CASE(the_loss_takes_as_many_tokens_as_its_products_need) {
  const auto tokens = [](device::Kind kind, std::int64_t num_tokens, std::int64_t vocab) {
    return loss_chunk_tokens(kind, {.tokens = num_tokens, .vocab = vocab});
  };
  for (const device::Kind kind : {device::Kind::cpu, device::Kind::cuda}) {
    BOOST_TEST(tokens(kind, 100, 151936) == 100);  // never more than there are
  }
  BOOST_TEST(tokens(device::Kind::cpu, 8192, 272) == 8192);
  BOOST_TEST(tokens(device::Kind::cpu, 8192, 32000) == 512);
  BOOST_TEST(tokens(device::Kind::cpu, 8192, 151936) == 256);
  BOOST_TEST(tokens(device::Kind::cuda, 8192, 32000) == 4096);
  BOOST_TEST(tokens(device::Kind::cuda, 8192, 151936) == 2048);
}

BOOST_AUTO_TEST_CASE(the_workspace_of_a_gpu_holds_attention_plans_beside_the_scratch_of_an_op) {
  const std::size_t scratch_bytes = workspace_bytes(device::Kind::cuda, 1, {});
  BOOST_TEST(scratch_bytes >= std::size_t{32} << 20U);
  BOOST_TEST(workspace_bytes(device::Kind::cuda, 1, {.tokens = 1 << 16}) > scratch_bytes);
  BOOST_TEST(product_copies_bytes(device::Kind::cuda, 8, {.tokens = 1 << 16}) == 0u);
}

BOOST_AUTO_TEST_CASE(an_absent_backend_is_a_configuration_error_that_says_what_to_set) {
  if (ops::is_built(device::Kind::cuda)) return;
  const auto cpu = device::make_device(device::Kind::cpu);
  const auto stream = cpu->make_stream();
  CudaDevice device;
  BOOST_CHECK_EXCEPTION((void)make_backend(device, *stream), Error, [](const Error& error) {
    return error.status() == ExitStatus::configuration &&
           std::string(error.what()).find("no CUDA kernels") != std::string::npos &&
           std::string(error.what()).find("backend = cpu") != std::string::npos;
  });
}

}  // namespace sft::ops
