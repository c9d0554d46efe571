// SPDX-License-Identifier: Apache-2.0
#pragma once
// The main of a Boost.Test program that runs under mpirun: MPI for the whole run, and a failure on any rank fails all.
// Include it in exactly one source of the program, after defining BOOST_TEST_NO_MAIN.

#include <boost/test/unit_test.hpp>
#include <memory>

#include "sft/comm/session.hpp"

namespace sft::test {

inline std::unique_ptr<comm::Session>& session_storage() {
  static std::unique_ptr<comm::Session> session;
  return session;
}
/// The MPI session of the test program.
inline comm::Session& session() { return *session_storage(); }

}  // namespace sft::test

int main(int argc, char** argv) {
  sft::test::session_storage() = std::make_unique<sft::comm::Session>(&argc, &argv);
  const int status = boost::unit_test::unit_test_main([] { return true; }, argc, argv);
  sft::test::session_storage().reset();
  return status;
}
