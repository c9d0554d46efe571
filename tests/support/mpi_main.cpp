// SPDX-License-Identifier: Apache-2.0
// The main of a Boost.Test program that runs under mpirun: MPI for the whole run, and a failure on any rank fails all.
#define BOOST_TEST_NO_MAIN
#define BOOST_TEST_MODULE sft
#include <boost/test/unit_test.hpp>
#include <memory>

#include "support/mpi_session.hpp"

namespace sft::test {

namespace {
std::unique_ptr<comm::Session> the_session;
}

comm::Session& session() { return *the_session; }

}  // namespace sft::test

int main(int argc, char** argv) {
  sft::test::the_session = std::make_unique<sft::comm::Session>(&argc, &argv);
  const int status = boost::unit_test::unit_test_main([] { return true; }, argc, argv);
  sft::test::the_session.reset();
  return status;
}
