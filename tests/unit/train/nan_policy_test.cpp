// SPDX-License-Identifier: Apache-2.0
#include <boost/test/unit_test.hpp>

#include "sft/core/error.hpp"
#include "train/nan_policy.hpp"

using namespace sft;

namespace {

/// A numerical Error with this in its text.
auto says(const std::string& part) {
  return [part](const Error& error) {
    return error.status() == ExitStatus::numerical && std::string(error.what()).find(part) != std::string::npos;
  };
}

}  // namespace

BOOST_AUTO_TEST_CASE(so_many_steps_in_a_row_may_be_left_out) {
  config::Train train;
  train.nan_skip_limit = 3;
  checkpoint::Decisions decisions;
  train::count_skipped(train, 1, "nan", decisions);
  train::count_skipped(train, 2, "nan", decisions);
  decisions.num_skipped_in_a_row = 0;  // step 3 was done
  train::count_skipped(train, 4, "nan", decisions);
  train::count_skipped(train, 5, "nan", decisions);
  BOOST_TEST(decisions.num_skipped_steps == 4);
  BOOST_CHECK_EXCEPTION(train::count_skipped(train, 6, "the loss of rank 3", decisions), Error,
                        says("3 steps up to step 6 were left out (that is train.nan_skip_limit in a row; the last one: "
                             "the loss of rank 3)"));
}

BOOST_AUTO_TEST_CASE(the_watchdog_ends_a_run_whose_loss_stays_too_high) {
  config::Train train;
  checkpoint::Decisions decisions;
  for (int step = 1; step < 9; ++step) train::watch_loss(train, step, 1e9, decisions);  // it is off
  train.loss_watchdog_threshold = 5.0;
  const auto watch = [&](double loss) { train::watch_loss(train, 12, loss, decisions); };
  watch(6.0);
  watch(7.0);
  watch(5.0);  // not above it: the count begins anew
  watch(6.0);
  watch(5.5);
  BOOST_TEST(decisions.num_high_losses == 2);
  BOOST_CHECK_EXCEPTION(
      watch(8.25), Error,
      says("the loss of step 12 is 8.25000 (it was above train.loss_watchdog_threshold = 5 in 3 steps "
           "in a row)"));
  decisions = {};
  train.loss_watchdog_patience = 1;
  BOOST_CHECK_EXCEPTION(watch(5.5), Error, says("in this step"));
}
