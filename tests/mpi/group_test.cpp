// SPDX-License-Identifier: Apache-2.0
#include <sys/resource.h>
#include <time.h>

#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>

#include "sft/comm/launcher.hpp"
#include "sft/machine/node.hpp"
#include "support/barrier.hpp"
#include "support/mpi_session.hpp"

namespace sft::test {

namespace {

struct World {
  const comm::Group& world = session().world();
  int rank = world.rank();
  int size = world.size();
};

/// The error that agree() throws on this rank for `work`; a done status and no text when it throws none.
std::pair<ExitStatus, std::string> agreed_error(const comm::Group& group, const std::function<void()>& work) {
  try {
    group.agree(work);
  } catch (const comm::SharedError& error) {
    return {error.status(), error.what()};
  }
  return {ExitStatus::done, ""};
}

}  // namespace

BOOST_AUTO_TEST_SUITE(group)

BOOST_FIXTURE_TEST_CASE(reductions_of_host_numbers, World) {
  std::array<double, 2> sums = {1.0, static_cast<double>(rank)};
  world.sum(sums);
  BOOST_TEST(sums[0] == size);
  BOOST_TEST(sums[1] == size * (size - 1) / 2.0);
  std::array<std::int64_t, 1> count = {std::int64_t{1} << 40};
  world.sum(count);
  BOOST_TEST(count[0] == size * (std::int64_t{1} << 40));
  std::array<double, 1> largest = {-static_cast<double>(rank)};
  world.max(largest);
  BOOST_TEST(largest[0] == 0.0);
  std::array<std::int64_t, 1> last = {rank};
  world.max(last);
  BOOST_TEST(last[0] == size - 1);
}

BOOST_FIXTURE_TEST_CASE(broadcasts_of_numbers_and_text, World) {
  for (int root = 0; root < size; ++root) {
    std::array<std::int64_t, 2> values = {rank, 10 * rank};
    world.broadcast(values, root);
    BOOST_TEST(values[1] == 10 * root);
    std::string text = std::string(static_cast<std::size_t>(100 * rank), 'a') + std::to_string(rank);
    world.broadcast(text, root);
    BOOST_TEST(text == std::string(static_cast<std::size_t>(100 * root), 'a') + std::to_string(root));
    values = {rank, -rank};
    text = std::string(static_cast<std::size_t>(rank), 'b');
    world.broadcast(values, text, root);
    BOOST_TEST(values[1] == -root);
    BOOST_TEST(text == std::string(static_cast<std::size_t>(root), 'b'));
  }
  std::string empty = rank == 0 ? "" : "something";
  world.broadcast(empty, 0);
  BOOST_TEST(empty.empty());
}

BOOST_FIXTURE_TEST_CASE(a_text_goes_to_one_rank_alone, World) {
  const int to = size - 1;
  for (int from = 0; from < size; ++from) {
    for (const std::size_t length : {std::size_t{0}, std::size_t{7}, std::size_t{300'000}}) {
      const std::string text(length, static_cast<char>('a' + rank));
      const std::string expected = rank == to ? std::string(length, static_cast<char>('a' + from)) : "";
      BOOST_TEST((world.deliver(text, from, to) == expected), length << " bytes from rank " << from);
    }
  }
}

BOOST_FIXTURE_TEST_CASE(all_gather_of_texts, World) {
  const std::vector<std::string> texts =
      world.all_gather(rank == 0 ? "" : std::string(static_cast<std::size_t>(rank), 'x'));
  BOOST_REQUIRE(texts.size() == static_cast<std::size_t>(size));
  for (std::size_t r = 0; r < texts.size(); ++r) BOOST_TEST(texts[r] == std::string(r, 'x'));
}

BOOST_FIXTURE_TEST_CASE(all_gather_of_numbers_keeps_every_bit, World) {
  constexpr double tiny = 5e-324, third = 1.0 / 3.0;
  const std::array<double, 3> mine = {third / (rank + 1), tiny * rank, rank == 0 ? -0.0 : 1e-7};
  const std::vector<double> numbers = world.all_gather(mine);
  BOOST_REQUIRE(numbers.size() == 3 * static_cast<std::size_t>(size));
  for (int r = 0; r < size; ++r) {
    const double* of_rank = numbers.data() + 3 * r;
    BOOST_TEST(of_rank[0] == third / (r + 1));
    BOOST_TEST(of_rank[1] == tiny * r);
    BOOST_TEST(of_rank[2] == (r == 0 ? 0.0 : 1e-7));
    BOOST_TEST(std::signbit(of_rank[2]) == (r == 0));
  }
  const std::array<std::int64_t, 2> counts = {std::numeric_limits<std::int64_t>::max() - rank, -rank};
  const std::vector<std::int64_t> all = world.all_gather(counts);
  BOOST_REQUIRE(all.size() == 2 * static_cast<std::size_t>(size));
  for (int r = 0; r < size; ++r) {
    const auto at = 2 * static_cast<std::size_t>(r);
    BOOST_TEST(all[at] == std::numeric_limits<std::int64_t>::max() - r);
    BOOST_TEST(all[at + 1] == -r);
  }
  BOOST_TEST(world.all_gather(std::span<const double>()).empty());
}

BOOST_FIXTURE_TEST_CASE(split_orders_by_key, World) {
  const comm::Group reversed = world.split(0, -rank, "reversed");
  BOOST_TEST(reversed.rank() == size - 1 - rank);
  BOOST_TEST(reversed.name() == "reversed");
  const comm::Group alone = world.split(rank, 0, "alone");
  BOOST_TEST(alone.size() == 1);
  BOOST_TEST(!(alone == reversed));
  const comm::Group copy = alone;
  BOOST_TEST((copy == alone));
}

BOOST_FIXTURE_TEST_CASE(the_node_holds_all_ranks_of_this_machine, World) {
  BOOST_TEST(session().node().size() == size);
}

BOOST_FIXTURE_TEST_CASE(agree_runs_the_work_and_is_silent_when_all_is_well, World) {
  bool ran = false;
  world.agree([&] { ran = true; });
  BOOST_TEST(ran);
}

BOOST_FIXTURE_TEST_CASE(an_error_of_one_rank_reaches_all_and_names_it, World) {
  for (int bad = 0; bad < size; ++bad) {
    const auto [status, message] = agreed_error(world, [&] {
      if (rank == bad) throw_data_error("cannot open a.h5", "no such file", "check train_files");
    });
    BOOST_TEST((status == ExitStatus::data));
    const std::string name = size == 1 ? "" : "rank " + std::to_string(bad) + ": ";
    BOOST_TEST(message == name + "cannot open a.h5 (no such file): check train_files");
  }
}

BOOST_FIXTURE_TEST_CASE(an_error_that_all_ranks_have_names_none, World) {
  const auto [status, message] = agreed_error(world, [] { throw_config_error("bad key", "no such key", "fix it"); });
  BOOST_TEST((status == ExitStatus::configuration));
  BOOST_TEST(message == "bad key (no such key): fix it");
}

BOOST_FIXTURE_TEST_CASE(of_several_errors_the_lowest_rank_wins, World) {
  if (size < 3) return;
  const auto [status, message] = agreed_error(world, [&] {
    if (rank == 1) throw Error(ExitStatus::numerical, "first");
    if (rank == 2) throw Error(ExitStatus::data, "second");
  });
  BOOST_TEST((status == ExitStatus::numerical));
  BOOST_TEST(message == "rank 1: first");
}

BOOST_FIXTURE_TEST_CASE(other_exceptions_are_failures, World) {
  const auto [status, message] = agreed_error(world, [&] {
    if (rank == size - 1) throw std::runtime_error("broken");
  });
  BOOST_TEST((status == ExitStatus::failure));
  BOOST_TEST(message.ends_with("not in your input): please report it with the command line"));
}

BOOST_FIXTURE_TEST_CASE(a_rank_is_named_once, World) {
  if (size < 3) return;
  const comm::Group even = world.split(rank % 2, rank, "parity");
  const auto among_even = agreed_error(even, [&] {
    if (rank == 2) throw Error(ExitStatus::data, "damaged");
  });
  const auto [status, message] = agreed_error(world, [&] {
    if (!among_even.second.empty()) throw comm::SharedError(among_even.first, among_even.second);
  });
  BOOST_TEST((status == ExitStatus::data));
  BOOST_TEST(message == "rank 2: damaged");
}

BOOST_FIXTURE_TEST_CASE(agree_refuses_collectives_in_its_work, World) {
  if (size == 1) return;
  const comm::Group all = world.split(0, rank, "all");
  const std::array<int, 2> dims = {size, 1};
  const std::array<bool, 2> kept = {true, false};
  const comm::Group grid = comm::make_cartesian(world, dims);
  std::array<double, 1> number = {1.0};
  std::array<std::int64_t, 1> count = {1};
  std::string text = "text";
  const std::vector<std::pair<std::string, std::function<void()>>> calls = {
      {"sum over group all", [&] { all.sum(number); }},
      {"sum over group all", [&] { all.sum(count); }},
      {"max over group all", [&] { all.max(number); }},
      {"max over group all", [&] { all.max(count); }},
      {"broadcast over group all", [&] { all.broadcast(count, 0); }},
      {"broadcast over group all", [&] { all.broadcast(text, 0); }},
      {"deliver over group all", [&] { (void)all.deliver(text, 0, 0); }},
      {"all_gather over group all", [&] { (void)all.all_gather(text); }},
      {"all_gather over group all", [&] { (void)all.all_gather(number); }},
      {"all_gather over group all", [&] { (void)all.all_gather(count); }},
      {"split over group all", [&] { (void)all.split(0, rank, "part"); }},
      {"agree over group all", [&] { all.agree([] {}); }},
      {"agree over group world", [&] { world.agree([] {}); }},
      {"make_cartesian over group world", [&] { (void)comm::make_cartesian(world, dims); }},
      {"cartesian_group over group mesh", [&] { (void)comm::cartesian_group(grid, kept, "x"); }},
  };
  for (const auto& [name, call] : calls) {
    const std::string expected = "internal error: " + name + " is called inside the work of agree over group world";
    const auto [status, message] = agreed_error(world, call);
    BOOST_TEST((status == ExitStatus::failure), name);
    BOOST_TEST(message.starts_with(expected), message);
    // On one rank alone, which the others would wait for.
    const auto [lone_status, lone_message] = agreed_error(world, [&, &work = call] {
      if (rank == size - 1) work();
    });
    BOOST_TEST((lone_status == ExitStatus::failure), name);
    BOOST_TEST(lone_message.starts_with("rank " + std::to_string(size - 1) + ": " + expected), lone_message);
  }
  BOOST_CHECK_THROW(all.agree([&] { throw std::logic_error("broken"); }), comm::SharedError);
  world.sum(count);  // which is right again
  BOOST_TEST(count[0] == size);
}

BOOST_FIXTURE_TEST_CASE(a_group_of_one_rank_may_be_used_in_the_work, World) {
  const comm::Group self = comm::self_group();
  std::array<std::int64_t, 1> count = {7};
  const auto [status, message] = agreed_error(world, [&] {
    self.sum(count);
    self.agree([&] { self.broadcast(count, 0); });
    if (size > 1) world.sum(count);  // the inner agree has not ended the outer one
  });
  BOOST_TEST(count[0] == 7);
  BOOST_TEST((status == (size > 1 ? ExitStatus::failure : ExitStatus::done)), message);
}

BOOST_FIXTURE_TEST_CASE(nor_do_agreements_of_one_rank_take_collectives, World) {
  if (size == 1) return;
  std::array<std::int64_t, 1> count = {7};
  const auto [status, message] = agreed_error(comm::self_group(), [&] { world.sum(count); });
  BOOST_TEST((status == ExitStatus::failure));
  BOOST_TEST(message.find("sum over group world is called inside the work of agree over group self") !=
             std::string::npos);
}

/// A rank that waits while rank 0 computes: how often it slept, and how much of the time it computed itself.
struct Wait {
  long num_sleeps = 0;
  double share_of_a_core = 0.0;

  /// A test every 160 us takes some hundredths. A rank that yields never sleeps, and gets the part of a core that is
  /// left.
  bool left_its_core() const { return num_sleeps >= 100 && share_of_a_core <= 0.1; }
};

Wait wait_for_rank_0(const comm::Group& world, double seconds_of_rank_0, const std::function<void()>& wait) {
  const auto seconds = [](clockid_t clock) {
    timespec now{};
    clock_gettime(clock, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
  };
  const auto num_sleeps = [] {
    rusage usage{};
    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_nvcsw;  // yields count as involuntary
  };
  barrier(world);
  const double begin = seconds(CLOCK_MONOTONIC), begin_of_cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
  const long sleeps_before = num_sleeps();
  while (world.rank() == 0 && seconds(CLOCK_MONOTONIC) < begin + seconds_of_rank_0) {
  }
  wait();
  const double waited = seconds(CLOCK_MONOTONIC) - begin, computed = seconds(CLOCK_PROCESS_CPUTIME_ID) - begin_of_cpu;
  return {num_sleeps() - sleeps_before, computed / waited};
}

/// On a loaded machine a rank comes out of the barrier late, and gets through its first tests, which yield, slowly:
/// rank 0 computes for longer until every rank has had time to sleep.
BOOST_FIXTURE_TEST_CASE(ranks_that_share_cores_sleep_while_they_wait, World) {
  if (!machine::ranks_share_cores(comm::num_local_ranks())) return;
  const std::array<std::function<void()>, 4> waits{[&] { barrier(world); }, [&] { world.agree([] {}); },
                                                   [&] { (void)world.all_gather("text"); },
                                                   [&] { (void)world.split(0, rank, "all"); }};
  for (const auto& wait : waits) {
    Wait last;
    std::array<std::int64_t, 1> num_that_took_their_core = {1};
    for (double seconds = 0.3; seconds < 15.0 && num_that_took_their_core[0] > 0; seconds *= 2.0) {
      last = wait_for_rank_0(world, seconds, wait);
      num_that_took_their_core[0] = rank > 0 && !last.left_its_core() ? 1 : 0;
      world.sum(num_that_took_their_core);
    }
    BOOST_TEST(num_that_took_their_core[0] == 0,
               last.num_sleeps << " sleeps, " << last.share_of_a_core << " of a core");
  }
}

}  // namespace sft::test

BOOST_AUTO_TEST_SUITE_END()
