// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a node offers to the ranks it runs: memory, processor cores and network, as it promises its rate; and what
// memory of it this process holds, and what its processes do.

#include <sys/types.h>

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace sft::machine {

/// The memory that the processes of this node may use together: its RAM, or the limit of a control group (cgroup v1 or
/// v2, as batch systems and containers set it) that this process or any group above it is in, whichever is less. None
/// when the system does not tell. `root` is where /proc and /sys are looked for; only tests have another one.
[[nodiscard]] std::optional<std::size_t> node_memory_bytes(const std::filesystem::path& root = "/");

/// The size of the pages that the system backs any memory with unasked, and so makes whole of what is used in part
/// ("transparent huge pages", set to "always"); 0 where it does so with memory alone that asks for it. `root`: as
/// above.
[[nodiscard]] std::size_t unasked_huge_page_bytes(const std::filesystem::path& root = "/");

/// The processor cores that a rank's number of threads follows from.
struct Cores {
  int of_job = 1;                     ///< of this node, for all ranks of the job
  int of_rank = 1;                    ///< that the launcher bound this rank to; of_job where it bound it to none
  std::optional<int> wanted_threads;  ///< OMP_NUM_THREADS, where set: the user decides
};

/// The cores of the job on this node and of this process, and what its environment asks for.
[[nodiscard]] Cores cores_of_this_process();

/// OpenMP threads of each of `num_local_ranks` ranks (1 or more) on a node: what the user asks for, else an equal share
/// of the job's cores, but no more than the rank is bound to; never less than 1. Pure: planning asks it for nodes that
/// are not there.
[[nodiscard]] int num_threads_of_rank(const Cores& cores, int num_local_ranks);

/// Sets the number of OpenMP threads of this process to num_threads_of_rank(). Warns when the launcher bound this
/// process to fewer cores than that takes.
void set_num_threads(int num_local_ranks);

/// OpenMP threads of this process, as set_num_threads has set them.
[[nodiscard]] int num_threads();

/// Whether the node has more ranks than cores.
[[nodiscard]] bool ranks_share_cores(int num_local_ranks);

/// What a rank that shares its cores does between two fruitless tests for something that other ranks do, `num_tests` so
/// far, from 1 on: yields, and soon sleeps, for up to 160 us at a time. A rank that merely yields keeps its share of
/// the core from those that still compute.
void pause_between_tests(int num_tests);

/// The network adapters of this node that have a link, each with the rate that Linux gives for it: "mlx5_0 400 Gb/s (4X
/// NDR)" for InfiniBand and RoCE, which come first, "eth0 25 Gb/s" for Ethernet. Those whose rate is not known, such as
/// virtual ones, are left out. `root` is where /sys is looked for; only tests have another one.
[[nodiscard]] std::vector<std::string> network_adapters(const std::filesystem::path& root = "/");

/// Resident set of this process, in bytes: now, and the highest so far. The highest leaves out pages of shared memory
/// that belong to other processes (SharedBytes) and are resident here too because this one has read them: else they
/// would count once for each reader. The system tells no peak without them, so it is the highest resident set less what
/// is resident of others now, or the highest before there was shared memory, if that is more. Exact once a step has
/// run, as pages of shared memory stay resident.
[[nodiscard]] std::size_t resident_bytes();
[[nodiscard]] std::size_t peak_resident_bytes();

/// While it lives, `bytes` of the shared memory that is resident here belong to this process. Make it before the
/// memory, also where it belongs to others (0), and end it before the memory is given back. Shared memory that was
/// resident before the first was made (MPI's own) belongs to it too.
class SharedBytes {
 public:
  explicit SharedBytes(std::size_t bytes);
  ~SharedBytes();
  SharedBytes(const SharedBytes&) = delete;
  SharedBytes& operator=(const SharedBytes&) = delete;

 private:
  std::size_t bytes_;
};

enum class ProcessState {
  runs,     ///< or sleeps, as all that wait do; also where the system does not tell
  stopped,  ///< by a signal, or by a debugger
  blocked,  ///< one of its threads is in a call that nothing interrupts: a disk, a file system, a driver
  ended,    ///< dead, or gone
};

/// What process `id` is doing. `root` is where /proc is looked for; only tests have another one.
[[nodiscard]] ProcessState process_state(pid_t id, const std::filesystem::path& root = "/");

}  // namespace sft::machine
