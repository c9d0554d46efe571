// SPDX-License-Identifier: Apache-2.0
#include "sft/comm/launcher.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

namespace sft::comm {

namespace {

/// The environment variables in which a launcher tells a process its place.
struct Launcher {
  const char* num_ranks;
  const char* rank;
};
constexpr const char* step_tasks = "SLURM_STEP_NUM_TASKS";
constexpr Launcher launchers[] = {
    {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"},  // mpirun of Open MPI
    {"PMI_SIZE", "PMI_RANK"},                          // mpiexec of MPICH, srun --mpi=pmi2
    {step_tasks, "SLURM_PROCID"},                      // srun; not set in a job's script itself
};

/// The number in an environment variable; `otherwise` when there is none.
int number_of(const char* variable, int otherwise) {
  const char* value = std::getenv(variable);
  if (value == nullptr) return otherwise;
  const std::string_view text(value);
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? number : otherwise;
}

bool is_set(const char* variable) { return std::getenv(variable) != nullptr; }

/// Whether mpirun of Open MPI or MPICH started this rank. Variables of srun may be set too: it starts their daemons.
bool is_started_by_mpirun() { return is_set("OMPI_COMM_WORLD_SIZE") || is_set("MPI_LOCALNRANKS"); }

bool has_terminal() {
  const int descriptor = ::open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (descriptor < 0) return false;
  ::close(descriptor);
  return true;
}

/// Whether srun started a single task, or a shell for a person in which this process was started: the first of its
/// tasks has a terminal then, which no task of a step inside has.
bool is_alone_in_step() {
  if (!is_set("SLURM_STEP_ID") || is_started_by_mpirun()) return false;
  return number_of(step_tasks, 1) <= 1 || (is_set("SLURM_PTY_PORT") && has_terminal());
}

/// The launcher of this process; nullptr when there is none.
const Launcher* find_launcher() {
  if (is_alone_in_step()) return nullptr;
  for (const Launcher& launcher : launchers) {
    if (number_of(launcher.num_ranks, 0) > 0) return &launcher;
  }
  return nullptr;
}

/// Takes the variables out of the environment whose names begin so.
void unset_all(std::string_view prefix) {
  std::vector<std::string> names;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    if (text.starts_with(prefix)) names.emplace_back(text.substr(0, text.find('=')));
  }
  for (const std::string& name : names) ::unsetenv(name.c_str());
}

/// Of a pipe or a socket.
bool has_no_reader(int descriptor) {
  struct pollfd end {};
  end.fd = descriptor;  // without a reader it is in error, whatever is asked for
  return ::poll(&end, 1, 0) > 0 && (end.revents & (POLLERR | POLLHUP)) != 0;
}

}  // namespace

int num_launched_ranks() {
  const Launcher* launcher = find_launcher();
  return launcher == nullptr ? 1 : number_of(launcher->num_ranks, 1);
}

int launched_rank() {
  const Launcher* launcher = find_launcher();
  return launcher == nullptr ? 0 : number_of(launcher->rank, 0);
}

int num_local_ranks() {
  int most = 1;
  for (const char* variable : {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"}) {
    most = std::max(most, number_of(variable, 1));
  }
  return most;
}

void leave_foreign_step() {
  if (!is_set("SLURM_STEP_ID") || is_started_by_mpirun()) return;
  const bool is_alone = is_alone_in_step();
  if (!is_alone && (is_set("PMIX_RANK") || is_set("PMI_RANK"))) return;
  if (is_alone) {
    unset_all("PMIX_");
    unset_all("PMI_");
    ::unsetenv(step_tasks);
  }
  for (const char* name : {"SLURM_STEP_ID", "SLURM_STEPID", "SLURM_NODELIST"}) ::unsetenv(name);
}

bool is_output_closed() {
  struct stat status {};
  if (::fstat(STDOUT_FILENO, &status) != 0) return false;
  return (S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode)) && has_no_reader(STDOUT_FILENO);
}

bool is_launcher_output_closed() {
  if (std::getenv("OMPI_COMM_WORLD_SIZE") == nullptr) return false;  // the parent need not be a launcher
  const std::string output = "/proc/" + std::to_string(getppid()) + "/fd/1";
  struct stat status {};
  if (::stat(output.c_str(), &status) != 0 || !S_ISFIFO(status.st_mode)) return false;
  const int descriptor = ::open(output.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
  if (descriptor < 0) return false;
  const bool is_closed = has_no_reader(descriptor);
  ::close(descriptor);
  return is_closed;
}

}  // namespace sft::comm
