// SPDX-License-Identifier: Apache-2.0
// Asks what a run needs to know of model and machines, and writes its .ini file and the job script that starts it:
//
//   sft-config run.ini
//   sft-config run.ini --answers answers.txt

#include <unistd.h>

#include <fmt/core.h>
#include <filesystem>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "configure_options.hpp"
#include "next_steps.hpp"
#include "sft/core/error.hpp"
#include "sft/core/log.hpp"
#include "sft/core/program.hpp"
#include "sft/hub/folder.hpp"
#include "sft/hub/model_config.hpp"
#include "sft/io/files.hpp"
#include "sft/launch/interview.hpp"
#include "sft/launch/site.hpp"

namespace {

namespace fs = std::filesystem;
using namespace sft;

launch::Facts find_facts() {
  const launch::Site site = launch::find_site();
  launch::Facts facts;
  facts.num_gpus = site.num_gpus;
  facts.has_slurm = site.has_slurm;
  facts.pmi = site.pmi;
  return facts;
}

/// 0 where the model is not there yet.
std::int64_t num_parameters_of(const std::string& model) {
  try {
    return hub::read_model_config(hub::find_model_folder(model, "main")).model.num_parameters();
  } catch (const Error& error) {
    log_warning(fmt::format("sizes are proposed without the model: {}", error.what()));
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
    return launch::ask(answerer, facts, num_parameters_of);
  }
  launch::FileAnswerer answerer(io::read_file_or_pipe(answers_file), answers_file);
  launch::SiteAnswers answers = launch::ask(answerer, facts, num_parameters_of);
  answerer.finish();
  return answers;
}

int run(const std::vector<std::string>& arguments) {
  const std::optional<apps::ConfigureOptions> options = apps::read_configure_options(arguments);
  if (!options) return static_cast<int>(ExitStatus::done);
  const launch::Facts facts = find_facts();
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
                       apps::shell_word(script)));
  return static_cast<int>(ExitStatus::done);
}

}  // namespace

int main(int argc, char** argv) {
  return run_alone([&] { return run(std::vector<std::string>(argv + 1, argv + argc)); });
}
