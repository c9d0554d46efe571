// SPDX-License-Identifier: Apache-2.0
#include "sft/comm/agreed_gather.hpp"

#include <fmt/core.h>

#include <array>
#include <span>
#include <string>

#include "support/mpi_session.hpp"

namespace sft::test {

namespace {

struct RanksOfWorld {
  const comm::Group& world = session().world();
  int rank = world.rank();
  int size = world.size();

  /// The error of `work` in both, which has to be the same.
  [[nodiscard]] std::string same_error(const std::function<void()>& work) const {
    const auto message_of = [](const std::function<void()>& call) -> std::string {
      try {
        call();
      } catch (const comm::SharedError& error) {
        return fmt::format("{}: {}", static_cast<int>(error.status()), error.what());
      }
      return "";
    };
    const std::string agreed = message_of([&] { world.agree(work); });
    const std::string gathered = message_of([&] {
      static_cast<void>(comm::agree_and_gather(world, 8, [&] {
        work();
        return std::string("text");
      }));
    });
    BOOST_TEST(agreed == gathered);
    return gathered;
  }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(agreed_gather)

BOOST_FIXTURE_TEST_CASE(every_rank_has_what_each_returned, RanksOfWorld) {
  for (const std::size_t most : {std::size_t{16}, std::size_t{17}, std::size_t{1000}}) {
    const auto texts = comm::agree_and_gather(world, most, [&] { return std::string(rank % 17, 'a') + '\0'; });
    BOOST_REQUIRE(texts.size() == static_cast<std::size_t>(size));
    for (int from = 0; from < size; ++from) BOOST_TEST((texts[from] == std::string(from % 17, 'a') + '\0'));
  }
  for (const std::string& text : comm::agree_and_gather(world, 0, [] { return std::string(); })) {
    BOOST_TEST(text.empty());
  }
}

BOOST_FIXTURE_TEST_CASE(errors_are_those_of_agree, RanksOfWorld) {
  for (int bad = 0; bad < size; ++bad) {
    const std::string message = same_error([&] {
      if (rank == bad) throw_data_error("cannot write a.h5", "no space left", "make room");
    });
    BOOST_TEST(message.ends_with("cannot write a.h5 (no space left): make room"), message);
  }
  BOOST_TEST(same_error([] { throw_config_error("bad key", "no such key", "fix it"); }).starts_with("2: bad key"));
  std::array<std::int64_t, 1> ranks = {1};
  world.sum(std::span<std::int64_t>(ranks));  // none waits in another call
  BOOST_TEST(ranks[0] == size);
}

BOOST_FIXTURE_TEST_CASE(a_text_that_is_too_long_is_an_error_of_all, RanksOfWorld) {
  const auto gather = [&] {
    return comm::agree_and_gather(world, 8, [&] { return std::string(rank == size - 1 ? 9 : 8, 'a'); });
  };
  BOOST_CHECK_THROW(static_cast<void>(gather()), comm::SharedError);
}

BOOST_FIXTURE_TEST_CASE(its_work_makes_no_collective_call, RanksOfWorld) {
  if (size == 1) return;
  const std::string message = same_error([&] {
    std::array<double, 1> number = {1.0};
    if (rank == 0) world.sum(std::span<double>(number));
  });
  BOOST_TEST(message.find("sum over group world is called inside the work of agree") != std::string::npos, message);
  const std::string nested =
      same_error([&] { static_cast<void>(comm::agree_and_gather(world, 1, [] { return std::string(); })); });
  BOOST_TEST(nested.find("agree_and_gather over group world") != std::string::npos, nested);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft::test
