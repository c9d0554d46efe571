#include "cpu_cores.hpp"

#include <omp.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "sft/core/log.hpp"

namespace sft::device {

namespace {

/// Cores that process `pid` (0: this one) may run on; 0 when the system does not tell.
int num_allowed_cores(pid_t pid) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  if (sched_getaffinity(pid, sizeof cores, &cores) != 0) return 0;
  return CPU_COUNT(&cores);
}

}  // namespace

bool ranks_share_cores(int num_local_ranks) { return num_local_ranks > sysconf(_SC_NPROCESSORS_ONLN); }

void set_num_threads(int num_local_ranks) {
  const int allowed_cores = std::max(1, num_allowed_cores(0));
  // The launcher is free to use all cores of the job, also where it binds each rank to a few of them.
  const int job_cores = std::max(allowed_cores, num_allowed_cores(getppid()));
  const bool user_decides = std::getenv("OMP_NUM_THREADS") != nullptr;
  const int wanted = user_decides ? omp_get_max_threads() : std::max(1, job_cores / num_local_ranks);
  if (wanted > allowed_cores && job_cores > allowed_cores) {
    log_warning("each rank may use " + std::to_string(allowed_cores) + " core(s) where " + std::to_string(wanted) +
                " are wanted (the launcher bound it to them): start with mpirun --bind-to none");
  }
  omp_set_num_threads(user_decides ? wanted : std::min(wanted, allowed_cores));
}

}  // namespace sft::device
