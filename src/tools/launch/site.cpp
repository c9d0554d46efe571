// SPDX-License-Identifier: Apache-2.0
#include "sft/launch/site.hpp"

#include <sched.h>

#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <memory>
#include <sstream>
#include <utility>

#include "launch/environment.hpp"
#include "sft/core/error.hpp"
#include "sft/core/shell_word.hpp"
#include "sft/launch/hostfile.hpp"

namespace sft::launch {

namespace fs = std::filesystem;

namespace {

int count_of(const char* name) { return std::atoi(variable(name).c_str()); }

/// Standard output and errors of a command.
std::string output_of(const char* command) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> pipe(::popen(command, "r"), ::pclose);
  std::string text;
  std::array<char, 256> part{};
  while (pipe && std::fgets(part.data(), part.size(), pipe.get()) != nullptr) text += part.data();
  return text;
}

/// The sum of the numbers in `8`, `h100:4`, or `h100:4,a100:2`.
int count_of_types(const char* name) {
  std::istringstream types(variable(name));
  int count = 0;
  for (std::string type; std::getline(types, type, ',');) count += std::atoi(type.substr(type.rfind(':') + 1).c_str());
  return count;
}

int count_cores() {
  cpu_set_t cores;
  return ::sched_getaffinity(0, sizeof(cores), &cores) == 0 ? CPU_COUNT(&cores) : 0;
}

int count_gpus() {
  if (std::getenv("CUDA_VISIBLE_DEVICES") != nullptr) {
    const std::string list = variable("CUDA_VISIBLE_DEVICES");
    return list.empty() || list == "-1" ? 0 : static_cast<int>(std::ranges::count(list, ',') + 1);
  }
  int count = 0;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator("/dev", ignored)) {
    const std::string name = entry.path().filename().string();
    const bool is_gpu = name.starts_with("nvidia") && name.size() > 6 &&
                        std::all_of(name.begin() + 6, name.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
    count += is_gpu ? 1 : 0;
  }
  return count;
}

/// Ranks that the sizes of the mesh give, those that are auto left out.
int ranks_of_mesh(const config::Parallel& parallel) {
  constexpr std::int64_t most = std::numeric_limits<int>::max();  // which config::validate() refuses
  std::int64_t product = 1;
  for (const int size : {parallel.dp_replicate_size, parallel.dp_shard_size, parallel.sp_size, parallel.tp_size}) {
    product = std::min(product * std::max(size, 1), most);
  }
  return static_cast<int>(product);
}

bool may_use_gpus(const config::Config& config) { return config.device.backend != config::BackendChoice::cpu; }

/// The tasks of the job by its options, in their order of precedence.
int tasks_of_job(const Site& site) {
  for (const char* name : {"SLURM_NTASKS", "SLURM_NPROCS"}) {
    if (count_of(name) > 0) return count_of(name);
  }
  if (count_of("SLURM_NTASKS_PER_NODE") > 0) return count_of("SLURM_NTASKS_PER_NODE") * site.num_nodes;
  return count_of("SLURM_NTASKS_PER_GPU") * site.num_job_gpus;
}

/// The ranks that there is room for, before the mesh is looked at.
int room_for_ranks(const Request& request, const config::Config& config, const Site& site) {
  if (!request.hostfile.empty() && request.launcher.empty()) {
    const Hosts hosts = read_hostfile(request.hostfile);
    if (hosts.num_slots > 0) return hosts.num_slots;
    throw_config_error("the hostfile does not say how many ranks to start", hosts.unclear,
                       "write `HOST slots=N` there, or give --num_processes");
  }
  if (!site.is_in_job()) return std::max(may_use_gpus(config) ? site.num_gpus : 0, 1);
  if (site.num_tasks > 0) return site.num_tasks;
  return std::max(may_use_gpus(config) ? site.num_job_gpus : 0, site.num_nodes);
}

/// Enters the hosts of a job of PBS or LSF. One slot is no word on how many ranks one host is to take.
void add_job_hosts(Site& site, JobHosts hosts) {
  site.job_hosts = std::move(hosts);
  int num_slots = 0;
  for (const auto& [host, slots] : site.job_hosts.slots_of) num_slots += slots;
  site.num_nodes = std::max(1, static_cast<int>(site.job_hosts.slots_of.size()));
  if (num_slots > 1) site.num_tasks = num_slots;
  site.num_job_gpus = site.num_gpus * site.num_nodes;
}

/// mpirun on the hosts of a job of PBS or LSF: with their file, or, where Open MPI would take a host that is named once
/// for one of as many slots as it has cores, with their names.
std::string launcher_of_job(const Site& site, int machines, int num_ranks) {
  if (machines > 1 && machines != site.num_nodes) {
    throw_config_error(fmt::format("num_machines = {}, and the job has {} hosts", machines, site.num_nodes),
                       "ranks start on all hosts of the job", "ask the queue for as many, or leave num_machines out");
  }
  if (site.job_hosts.is_file_clear) {
    return fmt::format("mpirun --hostfile {} -np {}", shell_word(site.job_hosts.file), num_ranks);
  }
  std::vector<std::string> hosts;
  for (const auto& [host, slots] : site.job_hosts.slots_of) hosts.push_back(fmt::format("{}:{}", host, slots));
  return fmt::format("mpirun --host {} -np {}", fmt::join(hosts, ","), num_ranks);
}

}  // namespace

std::string choose_pmi(const std::string& list_of_srun) {
  std::istringstream words(list_of_srun);
  std::string chosen;
  for (std::string word; words >> word;) {
    std::erase(word, ',');
    if (word == "pmix") return word;
    if (word.starts_with("pmix_") && chosen != "pmix") chosen = word;
    if (word == "pmi2" && chosen.empty()) chosen = word;
  }
  return chosen;
}

Site find_site() {
  Site site;
  site.num_gpus = count_gpus();
  site.num_cores = count_cores();
  site.num_threads = count_of("OMP_NUM_THREADS");
  site.is_in_slurm_job = !variable("SLURM_JOB_ID").empty();
  site.has_slurm = site.is_in_slurm_job || !output_of("command -v sbatch").empty();
  if (site.has_slurm) site.pmi = choose_pmi(output_of("srun --mpi=list 2>&1"));
  if (!site.is_in_slurm_job) {
    add_job_hosts(site, find_job_hosts());
    return site;
  }
  site.num_nodes = std::max(1, count_of("SLURM_JOB_NUM_NODES"));
  if (count_of("SLURM_GPUS_ON_NODE") > 0) site.num_gpus = count_of("SLURM_GPUS_ON_NODE");
  const int of_job = count_of_types("SLURM_GPUS");
  site.num_job_gpus = of_job > 0 ? of_job : site.num_gpus * site.num_nodes;
  site.num_tasks = tasks_of_job(site);
  site.is_in_step = !variable("SLURM_STEP_ID").empty();
  return site;
}

int choose_num_ranks(const Request& request, const config::Config& config, const Site& site) {
  const int of_mesh = ranks_of_mesh(config.parallel);
  int ranks = 1;
  if (request.num_processes) {
    ranks = *request.num_processes;
  } else if (!request.is_single_process) {
    ranks = std::max(room_for_ranks(request, config, site) / of_mesh, 1) * of_mesh;
  }
  if (request.is_single_process) ranks = 1;
  if (request.train_batch_size) {
    const std::int64_t per_rank = config.train.per_device_train_batch_size * config.train.gradient_accumulation_steps;
    const std::int64_t num_rows_at_once = ranks / (std::int64_t{config.parallel.sp_size} * config.parallel.tp_size);
    if (per_rank * num_rows_at_once != *request.train_batch_size) {
      throw_config_error(
          fmt::format("train_batch_size = {} is not what the sizes give", *request.train_batch_size),
          fmt::format("per_device_train_batch_size * gradient_accumulation_steps * data-parallel ranks = "
                      "{} * {} * {}",
                      config.train.per_device_train_batch_size, config.train.gradient_accumulation_steps,
                      num_rows_at_once),
          "write auto for it, or sizes of this product");
    }
  }
  return ranks;
}

std::string idle_part(const Request& request, const config::Config& config, const Site& site, int num_ranks) {
  if (request.is_single_process || !request.launcher.empty()) return "";
  if (!request.hostfile.empty()) {
    const int num_slots = read_hostfile(request.hostfile).num_slots;
    if (num_slots <= num_ranks) return "";
    return fmt::format("{} of the {} slots of {} are used, those of its first hosts: --num_processes {} would use all",
                       num_ranks, num_slots, request.hostfile, num_slots);
  }
  if (request.num_processes) return "";
  const int num_gpus = !may_use_gpus(config) ? 0 : site.is_in_job() ? site.num_job_gpus : site.num_gpus;
  if (num_gpus > num_ranks) {
    const char* const why = site.num_tasks == num_ranks ? ", one for each task of the job," : "";
    return fmt::format("{} ranks{} use as many of {} GPUs: --num_processes {} would use all", num_ranks, why, num_gpus,
                       num_gpus);
  }
  const int num_threads = request.threads_per_process.value_or(site.num_threads);
  if (num_gpus > 0 || site.is_in_job() || num_threads < 1 || num_ranks * num_threads >= site.num_cores) return "";
  return fmt::format("{} ranks of {} threads use {} of {} cores: --num_processes {} would use all", num_ranks,
                     num_threads, num_ranks * num_threads, site.num_cores, site.num_cores / num_threads);
}

std::vector<std::string> start_words(const Request& request, int num_ranks, const Site& site) {
  const int machines = request.num_machines.value_or(1);
  if (!request.launcher.empty()) {
    if (request.hostfile.empty()) return {"--launcher", request.launcher};
    throw_config_error(fmt::format("--launcher and the hostfile {} are given", request.hostfile),
                       "a launcher has its own words for hosts",
                       "write the hostfile into --launcher, and give --hostfile none");
  }
  if (!request.hostfile.empty()) {
    const int num_hosts = machines > 1 ? read_hostfile(request.hostfile).num_hosts : 0;
    if (num_hosts > 0 && machines != num_hosts) {
      throw_config_error(fmt::format("num_machines = {}, and {} names {} hosts", machines, request.hostfile, num_hosts),
                         "ranks start on the hosts of the file", "name as many hosts there, or leave num_machines out");
    }
    return {"--launcher", fmt::format("mpirun --hostfile {} -np {}", shell_word(request.hostfile), num_ranks)};
  }
  if (site.is_in_slurm_job) {
    if (machines > 1 && machines != site.num_nodes) {
      throw_config_error(fmt::format("num_machines = {}, and the SLURM job has {} nodes", machines, site.num_nodes),
                         "ranks start on all nodes of the job",
                         fmt::format("ask SLURM for --nodes={}, or leave num_machines out", machines));
    }
    const std::string pmi = site.pmi.empty() ? "" : fmt::format("--mpi={} ", site.pmi);
    const char* const overlap = site.is_in_step ? "--overlap " : "";
    return {"--launcher", fmt::format("srun {}{}--kill-on-bad-exit=1 --ntasks={}", pmi, overlap, num_ranks)};
  }
  if (site.num_nodes > 1) return {"--launcher", launcher_of_job(site, machines, num_ranks)};
  if (machines > 1) {
    throw_config_error(fmt::format("num_machines = {} without the names of machines", machines),
                       "there is no job of SLURM, PBS or LSF that has several, and no hostfile",
                       "start it in such a job, or give --hostfile FILE with a line `HOST slots=N` for each machine");
  }
  return {"-n", fmt::format("{}", num_ranks)};
}

}  // namespace sft::launch
