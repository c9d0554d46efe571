// SPDX-License-Identifier: Apache-2.0
// The main of a Boost.Test program of one process.
#define BOOST_TEST_MODULE sft
#include <boost/test/unit_test.hpp>
