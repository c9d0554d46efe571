// SPDX-License-Identifier: Apache-2.0
// The rows of a micro-batch, or an error in their place, from the rank that reads to those that share its rows.
#include <boost/test/unit_test.hpp>
#include <string>

#include "support/mpi_session.hpp"
#include "train/row_message.hpp"

namespace sft::test {

BOOST_AUTO_TEST_SUITE(row_message)

BOOST_AUTO_TEST_CASE(every_rank_gets_the_rows_of_the_first) {
  const comm::Group& world = session().world();
  for (const std::string& bytes : {std::string("a\0b", 3), std::string()}) {
    train::RowMessage message(world.rank() == 0 ? bytes : std::string("of another rank"));
    message.broadcast(world);
    BOOST_TEST(message.rows() == bytes);
  }
}

BOOST_AUTO_TEST_CASE(every_rank_gets_the_error_of_the_first) {
  const comm::Group& world = session().world();
  train::RowMessage message;
  if (world.rank() == 0)
    message = train::RowMessage(Error(ExitStatus::data, "cannot read a.h5 (it is cut): prepare it again"));
  message.broadcast(world);
  BOOST_CHECK_EXCEPTION((void)message.rows(), Error, [](const Error& error) {
    return error.status() == ExitStatus::data &&
           std::string(error.what()) == "cannot read a.h5 (it is cut): prepare it again";
  });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft::test
