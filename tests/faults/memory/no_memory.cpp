// SPDX-License-Identifier: Apache-2.0
// One rank gets no memory, or no room for its files, while the engine is set up: all ranks end with the same error,
// which names it, whatever was missing, and none is left waiting.

#include <string>
#include <vector>

#include "scarce_engine.hpp"
#include "support/failing_device.hpp"
#include "support/layout.hpp"
#include "support/mpi_session.hpp"
#include "support/temporary_folder.hpp"

using namespace sft;
using test::Scarcity;
using test::session;

namespace {

/// How a rank ended.
struct Ending {
  ExitStatus status = ExitStatus::done;
  std::string message;
};

Ending ending_of(const config::ValidConfig& config, const Scarcity& scarcity) {
  try {
    test::set_engine_up(config, scarcity, session());
  } catch (const comm::SharedError& error) {
    return {error.status(), error.what()};
  }
  return {};
}

/// Whether all ranks ended as this one. Collective.
bool is_common(const Ending& mine) {
  const std::string text = std::to_string(static_cast<int>(mine.status)) + " " + mine.message;
  std::string other = text;
  session().world().broadcast(other, 0);
  std::int64_t num_others = text == other ? 0 : 1;
  session().world().max(std::span(&num_others, 1));
  return num_others == 0;
}

/// With groups of fewer ranks than the world where there are four: what one group notices, the others must learn.
mesh::Layout layout_of_world() {
  return session().world().size() == 4 ? test::Layout{1, 2, 1, 2} : test::Layout{1, session().world().size(), 1, 1};
}

/// Lets each request of the scarce rank fail, one after the other, until none is left. Collective.
std::int64_t check_requests(const config::ValidConfig& config, Scarcity scarcity) {
  const std::string expected = "rank " + std::to_string(scarcity.rank) + ": " + test::FailingDevice::message;
  while (true) {
    ++scarcity.failing_request;
    const Ending ending = ending_of(config, scarcity);
    BOOST_TEST_REQUIRE(is_common(ending), "request " << scarcity.failing_request << ": " << ending.message);
    if (ending.status == ExitStatus::done) return scarcity.failing_request - 1;
    BOOST_TEST((ending.status == ExitStatus::failure));
    BOOST_TEST(ending.message == expected);
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(each_request_of_a_rank_for_memory_may_fail) {
  const config::ValidConfig config = test::scarce_config(layout_of_world(), "");
  for (const bool has_windows : {true, false}) {
    for (const int rank : {0, session().world().size() - 1}) {
      BOOST_TEST_CONTEXT("rank " << rank << (has_windows ? "" : ", no windows")) {
        constexpr std::int64_t num_arenas = 15, num_streams = 4;
        BOOST_TEST(check_requests(config, {.rank = rank, .has_windows = has_windows}) > num_arenas - 4 + num_streams);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(so_may_each_where_state_and_activations_lie_in_files) {
  const test::TemporaryFolder folder;
  const config::ValidConfig config = test::scarce_config(layout_of_world(), folder.path());
  BOOST_TEST(check_requests(config, {.rank = session().world().size() - 1}) > 0);
}

BOOST_AUTO_TEST_CASE(a_rank_without_windows_makes_all_send_messages) {
  const config::ValidConfig config = test::scarce_config(layout_of_world(), "");
  for (int rank = 0; rank < session().world().size(); ++rank) {
    const Ending ending = ending_of(config, {.rank = rank, .has_windows = false});
    BOOST_TEST(is_common(ending));
    BOOST_TEST((ending.status == ExitStatus::done), ending.message);
  }
}

BOOST_AUTO_TEST_CASE(a_file_of_a_rank_may_have_no_room) {
  const test::TemporaryFolder folder;
  for (const bool has_activations : {true, false}) {
    const config::ValidConfig config =
        test::scarce_config(layout_of_world(), folder.path()).with([=](config::Config& changed) {
          changed.train.activation_offload = has_activations;
        });
    for (const int rank : {0, session().world().size() - 1}) {
      const Ending ending = ending_of(config, {.rank = rank, .has_file_space = false});
      BOOST_TEST(is_common(ending));
      BOOST_TEST((ending.status == (has_activations ? ExitStatus::configuration : ExitStatus::data)));
      const std::string begin = "rank " + std::to_string(rank) + ": cannot offload " +
                                (has_activations ? "activations to `" : "the optimizer's state to `");
      BOOST_TEST(ending.message.starts_with(begin), ending.message);
    }
  }
}
