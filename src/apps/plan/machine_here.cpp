// SPDX-License-Identifier: Apache-2.0
#include "machine_here.hpp"

#include <fmt/core.h>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <system_error>
#include <vector>

#include "apps/common/child_process.hpp"
#include "apps/common/find_script.hpp"
#include "apps/common/machines.hpp"
#include "apps/common/open_datasets.hpp"
#include "sft/config/parse.hpp"
#include "sft/core/error.hpp"
#include "sft/core/log.hpp"
#include "sft/io/files.hpp"
#include "sft/machine/gpus.hpp"
#include "sft/machine/node.hpp"

namespace sft::apps {

namespace fs = std::filesystem;

namespace {

/// A folder that goes with its owner.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::string name = (fs::temp_directory_path() / "sft-plan-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) {
      throw_config_error(fmt::format("cannot make a folder in {}", fs::temp_directory_path().string()),
                         "measuring this machine needs one", "set TMPDIR to a folder that can be written to");
    }
    path_ = name;
  }
  ~ScratchFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  [[nodiscard]] std::string file(const char* name) const { return (path_ / name).string(); }

 private:
  fs::path path_;
};

/// The last line that says something.
std::string last_line(const std::string& log) {
  std::ifstream file(log);
  std::string last;
  for (std::string line; std::getline(file, line);) {
    if (!line.empty()) last = line;
  }
  return last;
}

/// A run to check the machine with: its ranks in one group, its model of no matter.
std::string trial_ini(int num_ranks, const config::Config& config, const std::string& folder) {
  config::Config trial;
  trial.model.hidden_size = trial.model.intermediate_size = 64;
  trial.model.num_hidden_layers = 1;
  trial.model.num_attention_heads = trial.model.num_key_value_heads = 1;
  trial.model.vocab_size = 256;
  trial.data.train_files = {no_data};
  trial.parallel.dp_shard_size = num_ranks;
  trial.train.precision = config.train.precision;
  trial.train.output_dir = folder;
  trial.device = config.device;
  return config::to_ini(trial);
}

}  // namespace

std::optional<int> ranks_of_here(const std::string& name) {
  std::smatch parts;
  if (!std::regex_match(name, parts, std::regex("here(x([0-9]{1,4}))?"))) return std::nullopt;
  return parts[2].matched ? std::stoi(parts[2]) : 0;
}

simulator::Hardware measure_here(int num_ranks, const config::Config& config, const std::string& keep) {
  const bool takes_gpus = config.device.backend != config::BackendChoice::cpu;
  if (num_ranks == 0) {
    const auto num_gpus = takes_gpus ? static_cast<int>(machine::visible_gpus().gpus.size()) : 0;
    num_ranks = num_gpus > 0 ? num_gpus : machine::cores_of_this_process().of_job;
  }
  const ScratchFolder scratch;
  const std::string ini = scratch.file("check.ini"), log = scratch.file("check.log"), file = scratch.file("here.ini");
  io::write_file_atomically(ini, trial_ini(num_ranks, config, scratch.file("output")));
  log_event(fmt::format("measuring this machine with {} ranks", num_ranks));
  const int status = run_and_wait({(program_folder() / "sft-run").string(), "-n", fmt::format("{}", num_ranks), ini,
                                   "--check", "--write_machine", file},
                                  log, "build or install sft and sft-run beside this program");
  if (status != 0) {
    throw Error(ExitStatus::failure,
                fmt::format("this machine could not be measured: {} ranks ended with status {}: {}", num_ranks, status,
                            last_line(log)));
  }
  simulator::Hardware machine = machine_named(file);
  machine.name = fmt::format("herex{}", num_ranks);
  if (!keep.empty()) io::write_file_atomically(keep, simulator::to_ini(machine));
  return machine;
}

}  // namespace sft::apps
