// SPDX-License-Identifier: Apache-2.0
#define BOOST_TEST_MODULE cuda_ops
#include <boost/test/unit_test.hpp>
