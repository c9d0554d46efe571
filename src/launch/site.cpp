// SPDX-License-Identifier: Apache-2.0
#include "sft/launch/site.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <sstream>

#include "launch/environment.hpp"
#include "sft/core/error.hpp"

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
  return parallel.dp_replicate_size * std::max(parallel.dp_shard_size, 1) * parallel.sp_size * parallel.tp_size;
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
  site.is_in_slurm_job = !variable("SLURM_JOB_ID").empty();
  site.has_slurm = site.is_in_slurm_job || !output_of("command -v sbatch").empty();
  if (site.has_slurm) site.pmi = choose_pmi(output_of("srun --mpi=list 2>&1"));
  if (!site.is_in_slurm_job) return site;
  site.num_tasks = count_of("SLURM_NTASKS");
  site.num_nodes = std::max(1, count_of("SLURM_JOB_NUM_NODES"));
  return site;
}

int choose_num_ranks(const Request& request, const config::Config& config, const Site& site) {
  const int of_mesh = ranks_of_mesh(config.parallel);
  int ranks = site.num_tasks > 0 ? site.num_tasks : std::max(site.num_gpus, 1);
  if (ranks % of_mesh != 0) ranks = of_mesh;
  if (request.num_processes) ranks = *request.num_processes;
  if (request.is_single_process) ranks = 1;
  if (request.train_batch_size) {
    const std::int64_t per_rank = config.train.per_device_train_batch_size * config.train.gradient_accumulation_steps;
    const int num_rows_at_once = ranks / (config.parallel.sp_size * config.parallel.tp_size);
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

std::vector<std::string> start_words(const Request& request, int num_ranks, const Site& site) {
  const int machines = request.num_machines.value_or(1);
  if (!request.launcher.empty()) return {"--launcher", request.launcher};
  if (!request.hostfile.empty()) {
    return {"--launcher", fmt::format("mpirun --hostfile {} -np {}", request.hostfile, num_ranks)};
  }
  if (site.is_in_slurm_job) {
    if (machines > 1 && machines != site.num_nodes) {
      throw_config_error(fmt::format("num_machines = {}, and the SLURM job has {} nodes", machines, site.num_nodes),
                         "ranks start on all nodes of the job",
                         fmt::format("ask SLURM for --nodes={}, or leave num_machines out", machines));
    }
    const std::string pmi = site.pmi.empty() ? "" : fmt::format("--mpi={} ", site.pmi);
    return {"--launcher", fmt::format("srun {}--kill-on-bad-exit=1 --ntasks={}", pmi, num_ranks)};
  }
  if (machines > 1) {
    throw_config_error(fmt::format("num_machines = {} without the names of machines", machines),
                       "there is no SLURM job and no hostfile",
                       "start it in a SLURM job, or give --hostfile FILE with a line `HOST slots=N` for each machine");
  }
  return {"-n", fmt::format("{}", num_ranks)};
}

}  // namespace sft::launch
