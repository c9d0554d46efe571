// SPDX-License-Identifier: Apache-2.0
#include "sft/launch/site.hpp"

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>

#include "support/config_error.hpp"
#include "support/temporary_folder.hpp"

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
  BOOST_TEST(launch::choose_num_ranks({}, config, {.num_gpus = 8}) == 6);
  BOOST_TEST(launch::choose_num_ranks({}, config, {.num_gpus = 2}) == 3);
}

BOOST_AUTO_TEST_CASE(number_of_ranks_of_a_job) {
  config::Config config;
  const Site gpus{.num_gpus = 8, .is_in_slurm_job = true, .num_job_gpus = 16, .num_nodes = 2};
  BOOST_TEST(launch::choose_num_ranks({}, config, gpus) == 16);
  Site tasks = gpus;
  tasks.num_tasks = 2;
  BOOST_TEST(launch::choose_num_ranks({}, config, tasks) == 2);
  BOOST_TEST(launch::choose_num_ranks({}, config, {.is_in_slurm_job = true, .num_nodes = 3}) == 3);
  config.device.backend = config::BackendChoice::cpu;
  BOOST_TEST(launch::choose_num_ranks({}, config, gpus) == 2);
  BOOST_TEST(launch::choose_num_ranks({}, config, {.num_gpus = 8}) == 1);
}

BOOST_AUTO_TEST_CASE(number_of_ranks_of_a_hostfile) {
  const test::TemporaryFolder folder;
  Request request;
  request.hostfile = folder.file("hosts");
  std::ofstream(request.hostfile) << "worker-1 slots=8\nworker-2 slots=8\n";
  config::Config config;
  BOOST_TEST(launch::choose_num_ranks(request, config, {.num_gpus = 4}) == 16);
  config.parallel.tp_size = 3;
  BOOST_TEST(launch::choose_num_ranks(request, config, {}) == 15);
  check_says(launch::idle_part(request, config, {}, 15), "15 of the 16 slots");
  request.num_processes = 4;
  BOOST_TEST(launch::choose_num_ranks(request, config, {}) == 4);
  check_says(launch::idle_part(request, config, {}, 4), "4 of the 16 slots");
  request.num_processes.reset();
  std::ofstream(request.hostfile) << "worker-1\n";
  check_says(refusal([&] { static_cast<void>(launch::choose_num_ranks(request, config, {})); }), "has no slots");
}

BOOST_AUTO_TEST_CASE(what_stays_idle) {
  const config::Config config;
  Request request;
  const Site tasks{.num_gpus = 8, .is_in_slurm_job = true, .num_tasks = 2, .num_job_gpus = 16, .num_nodes = 2};
  check_says(launch::idle_part(request, config, tasks, 2), "one for each task");
  check_says(launch::idle_part(request, config, {.num_gpus = 8}, 6), "6 ranks use as many of 8 GPUs");
  BOOST_TEST(launch::idle_part(request, config, {.num_gpus = 8}, 8).empty());
  BOOST_TEST(launch::idle_part(request, config, {.num_cores = 64}, 1).empty());
  check_says(launch::idle_part(request, config, {.num_cores = 64, .num_threads = 4}, 1), "use 4 of 64 cores");
  request.num_processes = 2;
  BOOST_TEST(launch::idle_part(request, config, {.num_gpus = 8}, 2).empty());
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
  Site step = job;
  step.is_in_step = true;
  request.num_machines.reset();
  BOOST_TEST(words(request, step).back() == "srun --mpi=pmix --overlap --kill-on-bad-exit=1 --ntasks=16");
  const test::TemporaryFolder folder;
  request.hostfile = folder.file("hosts");
  std::ofstream(request.hostfile) << "a slots=8\nb slots=8\n";
  BOOST_TEST(words(request, {}) == (Words{"--launcher", "mpirun --hostfile " + request.hostfile + " -np 16"}),
             boost::test_tools::per_element());
  request.num_machines = 3;
  check_says(refusal([&] { static_cast<void>(words(request, {})); }), "names 2 hosts");
  request.num_machines = 2;
  BOOST_TEST(words(request, job).size() == 2U);
  request.hostfile = "it's my [hosts], \"#1\"";
  request.num_machines.reset();
  std::ofstream(folder.file(request.hostfile)) << "a slots=8\n";
  const std::filesystem::path here = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  BOOST_TEST(words(request, {}).back() == R"(mpirun --hostfile 'it'\''s my [hosts], "#1"' -np 16)");
  std::filesystem::current_path(here);
  request.launcher = "flux run";
  check_says(refusal([&] { static_cast<void>(words(request, {})); }), "--launcher and the hostfile");
}

BOOST_AUTO_TEST_CASE(a_job_of_pbs) {
  Site job{.num_gpus = 4, .num_tasks = 4, .num_job_gpus = 8, .num_nodes = 2};
  job.job_hosts = {.file = "my nodes", .is_file_clear = true, .slots_of = {{"n1", 2}, {"n2", 2}}};
  BOOST_TEST(launch::choose_num_ranks({}, {}, job) == 4);
  check_says(launch::idle_part({}, {}, job, 4), "4 ranks, one for each task of the job, use as many of 8 GPUs");
  BOOST_TEST(launch::start_words({}, 4, job).back() == "mpirun --hostfile 'my nodes' -np 4");
  Request request;
  request.num_machines = 3;
  check_says(refusal([&] { static_cast<void>(launch::start_words(request, 4, job)); }), "and the job has 2 hosts");
  job.job_hosts = {.file = "nodes", .slots_of = {{"n1", 1}, {"n2", 1}}};
  BOOST_TEST(launch::start_words({}, 2, job).back() == "mpirun --host n1:1,n2:1 -np 2");
  const Site alone{.num_tasks = 4, .job_hosts = {.file = "nodes", .is_file_clear = true, .slots_of = {{"n1", 4}}}};
  BOOST_TEST(launch::choose_num_ranks({}, {}, alone) == 4);
  BOOST_TEST(launch::start_words({}, 4, alone).front() == "-n");
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
