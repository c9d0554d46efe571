// SPDX-License-Identifier: Apache-2.0
#pragma once
// MPI in a test program that runs under mpirun. Its main is tests/support/mpi_main.cpp.

#include <boost/test/unit_test.hpp>

#include "sft/comm/session.hpp"

namespace sft::test {

/// The MPI session of the test program: from before its first test case until behind its last.
[[nodiscard]] comm::Session& session();

}  // namespace sft::test
