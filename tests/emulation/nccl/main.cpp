// SPDX-License-Identifier: Apache-2.0
#define BOOST_TEST_MODULE emulated_nccl
#include <boost/test/unit_test.hpp>
