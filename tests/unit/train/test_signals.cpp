#include <boost/test/unit_test.hpp>
#include <csignal>

#include "sft/train/signals.hpp"

using namespace sft;

BOOST_AUTO_TEST_CASE(signals_set_the_flag_and_the_process_goes_on) {
  for (const int signal : {SIGTERM, SIGUSR1}) {
    const train::StopSignals signals;
    BOOST_TEST(signals.received() == 0);
    std::raise(signal);
    BOOST_TEST(signals.received() == signal);
  }
}

BOOST_AUTO_TEST_CASE(former_handlers_come_back) {
  std::signal(SIGUSR1, SIG_IGN);
  { const train::StopSignals signals; }
  BOOST_TEST((std::signal(SIGUSR1, SIG_DFL) == SIG_IGN));
}

BOOST_AUTO_TEST_CASE(names) {
  BOOST_TEST(train::signal_name(SIGTERM) == "SIGTERM");
  BOOST_TEST(train::signal_name(SIGUSR1) == "SIGUSR1");
}
