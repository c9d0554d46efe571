// SPDX-License-Identifier: Apache-2.0
// The main of a test of the emulated GPU that is built without sft.
#define BOOST_TEST_MODULE emulated_gpu
#include <boost/test/unit_test.hpp>
