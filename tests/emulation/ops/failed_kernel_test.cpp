// SPDX-License-Identifier: Apache-2.0
// A kernel that broke off is what an op's error says, whatever the op calls: a kernel, a library, or CUDA.

#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <functional>
#include <string>

#include "checks/ends_with_fault.hpp"
#include "emulation/ops/support.hpp"
#include "sft/core/error.hpp"

namespace sft::ops::testing {

BOOST_AUTO_TEST_SUITE(failed_kernel)

namespace {

/// A product, and what else a kernel needs.
struct Tensors {
  Twin a = Twin(DType::bf16, {4, 8}), b = Twin(DType::bf16, {8, 6}), c = Twin(DType::bf16, {4, 6});
};

/// The error of `op`, in a process of its own where a kernel broke off before.
std::string error_behind_fault(const std::function<void(Backend&, const Tensors&)>& op) {
  const Tensors tensors;
  return test::fault_of([&] {
    setenv("SFT_EMULATED_KERNEL_FAULT", "fill", 1);
    Backend& ops = Backends::get().gpu();
    try {
      ops.run(Fill{tensors.c.gpu(), 1.0F});
      ops.stream().synchronize();
    } catch (const Error&) {
      op(ops, tensors);
    }
  });
}

void check_message(const std::string& text) {
  BOOST_TEST(text.find("a CUDA kernel failed (an illegal memory access was encountered; the last kernels launched "
                       "were, newest first, ") != std::string::npos,
             text);
  BOOST_TEST(text.find("fill") != std::string::npos, text);
}

}  // namespace

BOOST_AUTO_TEST_CASE(of_a_kernel) {
  check_message(error_behind_fault([](Backend& ops, const Tensors& x) { ops.run(Fill{x.c.gpu(), 1.0F}); }));
}

BOOST_AUTO_TEST_CASE(of_a_product) {
  check_message(error_behind_fault(
      [](Backend& ops, const Tensors& x) { ops.run(Matmul{.a = x.a.gpu(), .b = x.b.gpu(), .c = x.c.gpu()}); }));
}

BOOST_AUTO_TEST_CASE(of_a_wait) {
  check_message(error_behind_fault([](Backend& ops, const Tensors&) { ops.stream().synchronize(); }));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft::ops::testing
