// SPDX-License-Identifier: Apache-2.0
#include "sft/device/ledger.hpp"

#include <boost/test/unit_test.hpp>

namespace sft::device {

BOOST_AUTO_TEST_SUITE(ledger)

BOOST_AUTO_TEST_CASE(entries_are_kept_by_label_and_space) {
  Ledger ledger;
  ledger.add(Label::parameters, Space::device, 100);
  ledger.add(Label::parameters, Space::device, 20);
  ledger.add(Label::parameters, Space::host, 3);
  ledger.add(Label::process, Space::host, 5000);
  BOOST_TEST(ledger.bytes(Label::parameters, Space::device) == 120U);
  BOOST_TEST(ledger.bytes(Label::parameters) == 123U);
  BOOST_TEST(ledger.bytes(Label::gradients) == 0U);
  BOOST_TEST(ledger.total_bytes() == 5123U);
  ledger.remove(Label::parameters, Space::device, 20);
  BOOST_TEST(ledger.bytes(Label::parameters) == 103U);
}

BOOST_AUTO_TEST_CASE(the_node_holds_everything_of_a_cpu_and_all_but_device_memory_of_a_gpu) {
  Ledger ledger;
  ledger.add(Label::activations, Space::device, 1000);
  ledger.add(Label::workspace, Space::pinned, 200);
  ledger.add(Label::process, Space::host, 30);
  BOOST_TEST(ledger.node_bytes(Kind::cpu) == 1230U);
  BOOST_TEST(ledger.node_bytes(Kind::cuda) == 230U);
}

}  // namespace sft::device

BOOST_AUTO_TEST_SUITE_END()
