// SPDX-License-Identifier: Apache-2.0
// Part of a test program on GPUs: once a kernel broke off, CUDA gives its error to all that follows. So the program
// ends behind the case in which that is found; on several ranks its launcher ends the others.
#include <cuda_runtime_api.h>

#include <boost/cstdlib.hpp>
#include <boost/test/tree/observer.hpp>
#include <boost/test/tree/test_unit.hpp>
#include <boost/test/unit_test.hpp>
#include <cstdio>
#include <cstdlib>
#include <iostream>

#include "sft/core/gpu_launches.hpp"

namespace sft::test {

namespace {

class EndBehindFailedKernel : public boost::unit_test::test_observer {
 public:
  EndBehindFailedKernel() { boost::unit_test::framework::register_observer(*this); }
  ~EndBehindFailedKernel() override { boost::unit_test::framework::deregister_observer(*this); }
  EndBehindFailedKernel(const EndBehindFailedKernel&) = delete;
  EndBehindFailedKernel& operator=(const EndBehindFailedKernel&) = delete;

  void test_unit_finish(const boost::unit_test::test_unit& unit, unsigned long /*microseconds*/) override {
    if (!is_of_a_kernel(cudaPeekAtLastError())) return;
    std::cout.flush();
    std::fprintf(stderr, "%s is the last case that was run: a CUDA kernel failed in it, and so would all others\n",
                 unit.full_name().c_str());
    std::fflush(nullptr);
    std::_Exit(boost::exit_test_failure);
  }
};

}  // namespace

BOOST_TEST_GLOBAL_FIXTURE(EndBehindFailedKernel);

}  // namespace sft::test
