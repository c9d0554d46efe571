// SPDX-License-Identifier: Apache-2.0
// How programs end: exit status and messages.
#include <sys/wait.h>

#include <array>
#include <boost/test/unit_test.hpp>
#include <cstdio>
#include <sstream>
#include <string>
#include <vector>

#include "sft/core/program.hpp"
#include "support/temporary_folder.hpp"

namespace {

struct Ending {
  int status;
  std::vector<std::string> errors;  ///< the lines that our program printed on standard error
  std::string output;               ///< all of it
};

/// `launch` is what stands before the program in a shell's line.
Ending ending_of(const std::string& launch, const std::string& how) {
  const std::string command = launch + " " + HELPER + " " + how + " 2>&1";
  FILE* output = popen(command.c_str(), "r");
  BOOST_REQUIRE(output != nullptr);
  std::string text;
  std::array<char, 4096> buffer{};
  while (const std::size_t count = std::fread(buffer.data(), 1, buffer.size(), output))
    text.append(buffer.data(), count);
  const int status = pclose(output);
  BOOST_TEST_MESSAGE(text);

  Ending ending{WIFEXITED(status) ? WEXITSTATUS(status) : -1, {}, text};
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("mpi_program_helper: error: ")) ending.errors.push_back(line);
  }
  return ending;
}

void check_ending(int num_ranks, const std::string& how, int status, const std::vector<std::string>& errors) {
  BOOST_TEST_CONTEXT(how << " on " << num_ranks << " ranks") {
    const Ending ending = ending_of(std::string(MPIEXEC) + " -np " + std::to_string(num_ranks), how);
    BOOST_TEST(ending.status == status);
    BOOST_TEST(ending.errors == errors, boost::test_tools::per_element());
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_good_run_ends_with_its_status) {
  check_ending(1, "good", 0, {});
  check_ending(4, "good", 0, {});
  check_ending(1, "status", 75, {});
  check_ending(4, "status", 75, {});
}

BOOST_AUTO_TEST_CASE(an_error_of_all_ranks_is_printed_once) {
  check_ending(1, "shared", 3, {"mpi_program_helper: error: damaged shard (its checksum differs): prepare it again"});
  check_ending(4, "shared", 3,
               {"mpi_program_helper: error: rank 3: damaged shard (its checksum differs): prepare it again"});
}

BOOST_AUTO_TEST_CASE(an_error_of_one_rank_ends_all_and_names_it) {
  check_ending(1, "error", 4, {"mpi_program_helper: error: loss is NaN"});
  check_ending(2, "error", 4, {"mpi_program_helper: error: rank 1: loss is NaN"});
  check_ending(8, "error", 4, {"mpi_program_helper: error: rank 7: loss is NaN"});
}

BOOST_AUTO_TEST_CASE(any_exception_ends_all_ranks) {
  const std::string broken = std::string("broken (a bug in sft ") + sft::version() +
                             ", not in your input): please report it with the command line";
  check_ending(1, "exception", 1, {"mpi_program_helper: error: internal error: " + broken});
  check_ending(4, "exception", 1, {"mpi_program_helper: error: rank 3: internal error: " + broken});
}

BOOST_AUTO_TEST_CASE(an_exception_of_another_thread_ends_all_ranks) {
  check_ending(4, "thread", 3, {"mpi_program_helper: error: rank 3: cannot read"});
}

BOOST_AUTO_TEST_CASE(ranks_that_do_not_find_each_other_end_before_they_work) {
  const auto launched = [](const std::string& environment) { return ending_of("env " + environment, "good"); };
  for (const std::string rank : {"0", "15"}) {
    for (const std::string& environment :
         {"SLURM_STEP_NUM_TASKS=16 SLURM_PROCID=" + rank, "PMI_SIZE=16 PMI_RANK=" + rank}) {
      const Ending ending = launched(environment);
      BOOST_TEST(ending.status == 2, environment);
      BOOST_TEST_REQUIRE(std::ssize(ending.errors) == (rank == "0" ? 1 : 0), environment);
      if (rank == "0")
        BOOST_TEST(ending.errors[0].find("16 ranks were started, but each is alone") != std::string::npos);
    }
  }
  // One rank is alone rightly; a job's script has SLURM_NTASKS although srun did not start what runs in it.
  for (const char* environment : {"SLURM_STEP_NUM_TASKS=1", "PMI_SIZE=1", "SLURM_NTASKS=16 SLURM_PROCID=0"}) {
    BOOST_TEST(launched(environment).status == 0, environment);
  }
}

BOOST_AUTO_TEST_CASE(a_node_waits_for_one_that_gets_on_and_names_its_rank) {
  const sft::test::TemporaryFolder folder;
  const Ending ending = ending_of(std::string(MPIEXEC) + " -np 4", "other_node " + folder.path());
  BOOST_TEST(ending.status == 76);
  BOOST_TEST_REQUIRE(ending.errors.size() == 1u);
  BOOST_TEST(ending.errors[0].starts_with("mpi_program_helper: error: rank 3 on "), ending.errors[0]);
  BOOST_TEST(ending.errors[0].find(" stands still, stopped by a signal, in saving, for ") != std::string::npos,
             ending.errors[0]);
  BOOST_TEST(ending.output.find("it stops now") < ending.output.find("error: "), ending.output);
}

BOOST_AUTO_TEST_CASE(a_node_that_is_gone_is_named_by_the_others) {
  const sft::test::TemporaryFolder folder;
  const Ending ending = ending_of(std::string(MPIEXEC) + " -np 4", "gone_node " + folder.path());
  BOOST_TEST(ending.status == 76);
  BOOST_TEST_REQUIRE(ending.errors.size() == 1u);
  BOOST_TEST(ending.errors[0].starts_with("mpi_program_helper: error: rank 2 on "), ending.errors[0]);
  BOOST_TEST(ending.errors[0].find(" stands still, with its whole node, which does not answer (") != std::string::npos,
             ending.errors[0]);
}

BOOST_AUTO_TEST_CASE(a_rank_that_does_not_come_ends_all_ranks_and_is_named) {
  const Ending ending = ending_of(std::string(MPIEXEC) + " -np 2", "hang");
  BOOST_TEST(ending.status == 76);
  BOOST_TEST_REQUIRE(ending.errors.size() == 1u);
  BOOST_TEST(ending.errors[0].starts_with("mpi_program_helper: error: rank 1 on "), ending.errors[0]);
  BOOST_TEST(ending.errors[0].find(" stands still, in reading rows, for ") != std::string::npos, ending.errors[0]);
  BOOST_TEST(ending.errors[0].find("(rank 0 is in all_reduce of a number over world (call ") != std::string::npos,
             ending.errors[0]);
  BOOST_TEST(ending.errors[0].find("comm_timeout_s") != std::string::npos);
}
