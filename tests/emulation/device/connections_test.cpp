// SPDX-License-Identifier: Apache-2.0
// How many hardware queues CUDA is asked for before its first call. One case a process.
#include <boost/test/unit_test.hpp>
#include <memory>

#include "runtime/stream_queue.hpp"
#include "sft/device/factory.hpp"
#include "sft/machine/gpus.hpp"

using namespace sft;

// As benchmarks make them, which look for no GPU before.
BOOST_AUTO_TEST_CASE(devices) {
  const std::unique_ptr<device::Device> device = device::make_device(device::Kind::cuda);
  BOOST_TEST(emulation::connections_at_first_call() == "32");
}

BOOST_AUTO_TEST_CASE(gpus_that_are_seen) {
  BOOST_TEST(!machine::visible_gpus().gpus.empty());
  BOOST_TEST(emulation::connections_at_first_call() == "32");
}

BOOST_AUTO_TEST_CASE(what_the_user_has_chosen) {
  const std::unique_ptr<device::Device> device = device::make_device(device::Kind::cuda);
  BOOST_TEST(emulation::connections_at_first_call() == "12");
}
