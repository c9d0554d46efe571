// SPDX-License-Identifier: Apache-2.0
// Asks what a run needs to know of model and machines, and writes its .ini file and the job script that starts it:
//
//   sft-config run.ini
//   sft-config run.ini --answers answers.txt

#include <unistd.h>

#include <fmt/core.h>
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "apps/common/choose_sizes.hpp"
#include "apps/common/machines.hpp"
#include "apps/common/start_model.hpp"
#include "options.hpp"
#include "sft/config/values.hpp"
#include "sft/core/error.hpp"
#include "sft/core/log.hpp"
#include "sft/core/program.hpp"
#include "sft/core/shell_word.hpp"
#include "sft/hub/folder.hpp"
#include "sft/hub/model_config.hpp"
#include "sft/io/files.hpp"
#include "sft/launch/interview.hpp"
#include "sft/launch/site.hpp"
#include "sft/machine/node.hpp"
#include "sft/model/flops.hpp"

namespace {

namespace fs = std::filesystem;
using namespace sft;

constexpr double giga = 1e9;

launch::Facts find_facts() {
  const launch::Site site = launch::find_site();
  launch::Facts facts;
  facts.num_gpus = site.num_gpus;
  facts.has_slurm = site.has_slurm;
  facts.pmi = site.pmi;
  if (const auto bytes = machine::node_memory_bytes()) facts.node_memory_gb = static_cast<double>(*bytes) / giga;
  for (const simulator::Hardware& known : apps::known_machines()) {
    if (known.kind == device::Kind::cuda) facts.gpu_kinds.push_back(known.name);
  }
  if (const auto here = apps::machine_at_hand(/*has_gpus=*/true, std::max(site.num_gpus, 1), 1)) {
    facts.gpu_kind = here->name.substr(0, here->name.find('x'));
    facts.gpu_memory_gb = static_cast<double>(here->device_bytes) / giga;
  }
  return facts;
}

/// The machine that the answers describe.
simulator::Hardware machine_of(const launch::SiteAnswers& answers) {
  const auto bytes = static_cast<std::size_t>(answers.memory_gb * giga);
  if (answers.uses_gpus) {
    simulator::Hardware machine =
        apps::machine_named(fmt::format("{}x{}x{}", answers.gpu_kind, answers.ranks_per_machine, answers.num_machines));
    if (bytes > 0) machine.device_bytes = bytes;
    return machine;
  }
  simulator::Hardware machine =
      apps::machine_at_hand(/*has_gpus=*/false, answers.ranks_per_machine, answers.num_machines).value();
  if (bytes > 0) machine.node_bytes = bytes;
  return machine;
}

/// The sizes of the fastest plan for the answers; those named in `fixed` are answers themselves.
std::optional<launch::Sizes> plan_sizes(const launch::SiteAnswers& answers, const std::set<std::string>& fixed) {
  if (answers.uses_gpus && answers.gpu_kind.empty()) return std::nullopt;
  try {
    std::vector<std::string> warnings;
    apps::OpenSizes open{.config = apps::parse_with_model(launch::ini_text(answers), {}, "the answers", warnings),
                         .free = {"dp_shard_size", "sp_method"},
                         .hardware = machine_of(answers),
                         .max_length = answers.max_length,
                         .rows_per_step = answers.rows_per_step};
    for (const char* size : {"tp_size", "sp_size", "dp_replicate_size", "zero_stage", "activation_checkpointing",
                             "per_device_train_batch_size", "gradient_accumulation_steps"}) {
      if (!fixed.contains(size)) open.free.insert(size);
    }
    if (!fixed.contains("offload")) open.free.insert("offload_optimizer");
    const config::Config config = apps::choose_sizes(open).config;
    return launch::Sizes{.dp_replicate_size = config.parallel.dp_replicate_size,
                         .sp_size = config.parallel.sp_size,
                         .tp_size = config.parallel.tp_size,
                         .zero_stage = fmt::format("{}", config.parallel.zero_stage),
                         .offload = config::write(config.train.offload_optimizer),
                         .activation_checkpointing = config::write(config.train.activation_checkpointing),
                         .rows_per_rank = static_cast<int>(config.train.per_device_train_batch_size),
                         .gradient_accumulation_steps = static_cast<int>(config.train.gradient_accumulation_steps)};
  } catch (const Error& error) {
    log_warning(fmt::format("sizes are proposed by rules of thumb: {}", error.what()));
    return std::nullopt;
  }
}

/// 0 where the model is not there yet.
std::int64_t num_parameters_of(const std::string& model) {
  try {
    const config::Model read = hub::read_model_config(hub::find_model_folder(model, "main")).model;
    return model::weight_counts(config::validate(read)->model).all;
  } catch (const Error&) {  // the plan has said so
    return 0;
  }
}

void require_free(const std::string& path, bool replaces) {
  std::error_code ignored;
  if (replaces || !fs::exists(path, ignored)) return;
  throw_config_error(fmt::format("{} is there", path), "it would be replaced", "give another name, or --force");
}

launch::SiteAnswers ask(const std::string& answers_file, const launch::Facts& facts) {
  if (answers_file.empty()) {
    launch::LineAnswerer answerer(std::cin, std::cout, isatty(STDIN_FILENO) != 0);
    return launch::ask(answerer, facts, {num_parameters_of, plan_sizes});
  }
  launch::FileAnswerer answerer(io::read_file_or_pipe(answers_file), answers_file);
  launch::SiteAnswers answers = launch::ask(answerer, facts, {num_parameters_of, plan_sizes});
  answerer.finish();
  return answers;
}

int run(const std::vector<std::string>& arguments) {
  const std::optional<apps::ConfigureOptions> options = apps::read_configure_options(arguments);
  if (!options) return static_cast<int>(ExitStatus::done);
  launch::Facts facts = find_facts();
  facts.model = options->model;
  require_free(options->output, options->replaces);
  const launch::SiteAnswers answers = ask(options->answers, facts);
  const std::string script =
      fs::path(options->output).replace_extension(answers.uses_slurm ? ".sbatch" : ".sh").string();
  require_free(script, options->replaces);
  const std::string sft_run = (fs::read_symlink("/proc/self/exe").parent_path() / "sft-run").string();
  io::write_file_atomically(options->output, launch::ini_text(answers));
  io::write_file_atomically(script, launch::job_script(answers, facts, sft_run, options->output));
  fs::permissions(script, fs::perms::owner_exec | fs::perms::group_exec | fs::perms::others_exec,
                  fs::perm_options::add);
  log_info(fmt::format("wrote {} and {}\nnext: {} {}", options->output, script, answers.uses_slurm ? "sbatch" : "bash",
                       shell_word(script)));
  return static_cast<int>(ExitStatus::done);
}

}  // namespace

int main(int argc, char** argv) {
  return run_alone([&] { return run(std::vector<std::string>(argv + 1, argv + argc)); });
}
