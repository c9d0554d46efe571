// SPDX-License-Identifier: Apache-2.0
#include "sft/device/wait_checks.hpp"

#include <boost/test/unit_test.hpp>
#include <stdexcept>
#include <string>

#include "sft/device/factory.hpp"

namespace sft::device {

namespace {

/// Ready at the test number `num_tests`.
struct Countdown {
  int num_tests;
  bool operator()() { return --num_tests <= 0; }
};

class Finished final : public Pending {
 public:
  explicit Finished(int num_tests) : countdown_{num_tests} {}
  bool test() override { return countdown_(); }

 private:
  Countdown countdown_;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(wait_checks)

BOOST_AUTO_TEST_CASE(what_is_ready_is_not_waited_for) {
  WaitChecks checks;
  checks.add(&checks, [] { BOOST_ERROR("nothing to wait for"); });
  checks.wait_until([] { return true; });
}

BOOST_AUTO_TEST_CASE(every_fruitless_test_asks_all_checks_in_order) {
  WaitChecks checks;
  std::string asked;
  const int first = 0, second = 0;
  checks.add(&first, [&] { asked += 'a'; });
  checks.add(&second, [&] { asked += 'b'; });
  checks.wait_until(Countdown{4});
  BOOST_TEST(asked == "ababab");
}

BOOST_AUTO_TEST_CASE(a_long_wait_goes_on_asking) {
  WaitChecks checks;
  int num_asked = 0;
  checks.add(&checks, [&] { ++num_asked; });
  checks.wait_until(Countdown{1101});
  BOOST_TEST(num_asked == 1100);
}

BOOST_AUTO_TEST_CASE(a_check_that_throws_ends_the_wait) {
  WaitChecks checks;
  int num_asked = 0;
  checks.add(&checks, [&] {
    if (++num_asked == 3) throw std::runtime_error("will never come");
  });
  BOOST_CHECK_EXCEPTION(checks.wait_until([] { return false; }), std::runtime_error,
                        [](const std::runtime_error& error) { return std::string(error.what()) == "will never come"; });
  BOOST_TEST(num_asked == 3);
}

BOOST_AUTO_TEST_CASE(a_removed_check_is_not_asked) {
  WaitChecks checks;
  int num_asked = 0;
  const int other = 0;
  checks.add(&checks, [] { BOOST_ERROR("removed"); });
  checks.add(&other, [&] { ++num_asked; });
  checks.remove(&checks);
  checks.wait_until(Countdown{3});
  BOOST_TEST(num_asked == 2);
}

BOOST_AUTO_TEST_CASE(waits_of_the_cpu_ask_nothing) {
  const auto device = make_device(Kind::cpu);
  device->wait_checks().add(&device, [] { BOOST_ERROR("asked on the CPU"); });
  const auto stream = device->make_stream();
  const auto event = device->make_event();
  stream->push(std::make_unique<Finished>(100));
  event->record(*stream);
  event->synchronize();
  stream->push(std::make_unique<Finished>(100));
  stream->synchronize();
}

}  // namespace sft::device

BOOST_AUTO_TEST_SUITE_END()
