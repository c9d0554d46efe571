// SPDX-License-Identifier: Apache-2.0
#include "sft/launch/site.hpp"

#include <boost/test/unit_test.hpp>

#include "support/config_error.hpp"

using namespace sft;
using launch::Request;
using launch::Site;
using test::check_says;
using test::refusal;

BOOST_AUTO_TEST_SUITE(site)

BOOST_AUTO_TEST_CASE(pmi) {
  BOOST_TEST(launch::choose_pmi("MPI plugin types are...\n\tnone\n\tpmi2\n\tpmix\n\tcray_shasta\n") == "pmix");
  BOOST_TEST(launch::choose_pmi("srun: MPI types are... pmi2, none, pmix_v4\n") == "pmix_v4");
  BOOST_TEST(launch::choose_pmi("MPI plugin types are...\n\tnone\n\tpmi2\n") == "pmi2");
  BOOST_TEST(launch::choose_pmi("srun: command not found\n").empty());
}

BOOST_AUTO_TEST_CASE(number_of_ranks) {
  config::Config config;
  BOOST_TEST(launch::choose_num_ranks({}, config, {}) == 1);
  BOOST_TEST(launch::choose_num_ranks({}, config, {.num_gpus = 4}) == 4);
  BOOST_TEST(launch::choose_num_ranks({}, config, {.num_gpus = 4, .is_in_slurm_job = true, .num_tasks = 8}) == 8);
  Request request;
  request.num_processes = 16;
  BOOST_TEST(launch::choose_num_ranks(request, config, {.num_gpus = 4}) == 16);
  request.is_single_process = true;
  BOOST_TEST(launch::choose_num_ranks(request, config, {.num_gpus = 4}) == 1);
  config.parallel.sp_size = 3;
  BOOST_TEST(launch::choose_num_ranks({}, config, {.num_gpus = 4}) == 3);
}

BOOST_AUTO_TEST_CASE(rows_of_a_step_that_deepspeed_names) {
  config::Config config;
  config.train.per_device_train_batch_size = 2;
  config.train.gradient_accumulation_steps = 3;
  Request request;
  request.num_processes = 4;
  request.train_batch_size = 24;
  BOOST_TEST(launch::choose_num_ranks(request, config, {}) == 4);
  request.train_batch_size = 32;
  check_says(refusal([&] { static_cast<void>(launch::choose_num_ranks(request, config, {})); }), "2 * 3 * 4");
}

BOOST_AUTO_TEST_CASE(how_ranks_start) {
  using Words = std::vector<std::string>;
  const auto words = [](const Request& request, const Site& where) { return launch::start_words(request, 16, where); };
  BOOST_TEST(words({}, {}) == (Words{"-n", "16"}), boost::test_tools::per_element());
  const Site job{.is_in_slurm_job = true, .num_tasks = 16, .num_nodes = 2, .pmi = "pmix"};
  BOOST_TEST(words({}, job) == (Words{"--launcher", "srun --mpi=pmix --kill-on-bad-exit=1 --ntasks=16"}),
             boost::test_tools::per_element());
  Request request;
  request.num_machines = 2;
  BOOST_TEST(words(request, job).size() == 2U);
  check_says(refusal([&] { static_cast<void>(words(request, {})); }), "--hostfile");
  request.num_machines = 3;
  check_says(refusal([&] { static_cast<void>(words(request, job)); }), "--nodes=3");
  request.hostfile = "hosts";
  BOOST_TEST(words(request, {}) == (Words{"--launcher", "mpirun --hostfile hosts -np 16"}),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_launcher_of_the_site) {
  launch::Request request;
  request.launcher = "flux run -N 4 -n 64";
  request.num_machines = 4;
  const std::vector<std::string> words{"--launcher", "flux run -N 4 -n 64"};
  BOOST_TEST(launch::start_words(request, 64, {}) == words, boost::test_tools::per_element());
  BOOST_TEST(launch::start_words(request, 64, {.is_in_slurm_job = true}) == words, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_SUITE_END()
