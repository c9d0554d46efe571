// SPDX-License-Identifier: Apache-2.0
#include <boost/test/unit_test.hpp>

#include "train/row_message.hpp"

using namespace sft;

BOOST_AUTO_TEST_CASE(a_message_of_rows_gives_their_bytes) {
  const std::string bytes("e\0r", 3);
  BOOST_TEST(train::RowMessage(bytes).rows() == bytes);
  BOOST_TEST(train::RowMessage().rows().empty());
}

BOOST_AUTO_TEST_CASE(a_message_of_an_error_throws_it) {
  const train::RowMessage message(Error(ExitStatus::data, "cannot read a.h5", "it is cut", "prepare it again"));
  BOOST_CHECK_EXCEPTION((void)message.rows(), Error, [](const Error& error) {
    return error.status() == ExitStatus::data &&
           std::string(error.what()) == "cannot read a.h5 (it is cut): prepare it again";
  });
}
