// SPDX-License-Identifier: Apache-2.0
#include <omp.h>
#include <sched.h>
#include <unistd.h>

#include <fmt/core.h>
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>

#include "sft/core/log.hpp"
#include "sft/machine/node.hpp"

namespace sft::machine {

namespace {

/// Cores that process `pid` (0: this one) may run on; 0 when the system does not tell.
int num_allowed_cores(pid_t pid) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  if (sched_getaffinity(pid, sizeof cores, &cores) != 0) return 0;
  return CPU_COUNT(&cores);
}

/// Threads of a rank that no launcher holds to fewer cores.
int num_wanted_threads(const Cores& cores, int num_local_ranks) {
  return cores.wanted_threads.value_or(std::max(1, cores.of_job / num_local_ranks));
}

}  // namespace

Cores cores_of_this_process() {
  const int of_rank = std::max(1, num_allowed_cores(0));
  // The launcher is free to use all cores of the job, also where it binds each rank to a few of them.
  Cores cores{.of_job = std::max(of_rank, num_allowed_cores(getppid())), .of_rank = of_rank, .wanted_threads = {}};
  if (std::getenv("OMP_NUM_THREADS") != nullptr) cores.wanted_threads = omp_get_max_threads();
  return cores;
}

int num_threads_of_rank(const Cores& cores, int num_local_ranks) {
  if (cores.wanted_threads) return *cores.wanted_threads;
  return std::min(num_wanted_threads(cores, num_local_ranks), cores.of_rank);
}

int num_threads() { return omp_get_max_threads(); }

bool ranks_share_cores(int num_local_ranks) { return num_local_ranks > sysconf(_SC_NPROCESSORS_ONLN); }

void pause_between_tests(int num_tests) {
  constexpr int num_tests_before_sleep = 20;
  constexpr std::chrono::microseconds first_sleep(20);
  constexpr int max_doublings = 3;
  if (num_tests <= num_tests_before_sleep) {
    std::this_thread::yield();
  } else {
    std::this_thread::sleep_for(first_sleep * (1 << std::min(num_tests - num_tests_before_sleep - 1, max_doublings)));
  }
}

void set_num_threads(int num_local_ranks) {
  const Cores cores = cores_of_this_process();
  const int wanted = num_wanted_threads(cores, num_local_ranks);
  if (wanted > cores.of_rank && cores.of_job > cores.of_rank) {
    log_warning(
        fmt::format("each rank may use {} core(s) where {} are wanted (the launcher bound it to them): start with "
                    "mpirun --bind-to none",
                    cores.of_rank, wanted));
  }
  omp_set_num_threads(num_threads_of_rank(cores, num_local_ranks));
}

}  // namespace sft::machine
