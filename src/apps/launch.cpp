// SPDX-License-Identifier: Apache-2.0
// One command from a model and records to a trained, evaluated and exported model:
//
//   sft-launch sft --model_name_or_path MODEL --dataset_name DATA --accelerate_config zero3 --max_length 4096 --packing

#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "launch_options.hpp"
#include "next_steps.hpp"
#include "prepare_options.hpp"
#include "sft/config/valid_config.hpp"
#include "sft/core/error.hpp"
#include "sft/core/log.hpp"
#include "sft/core/program.hpp"
#include "sft/hub/folder.hpp"
#include "sft/io/files.hpp"
#include "sft/launch/command.hpp"
#include "sft/launch/foreign_file.hpp"
#include "sft/launch/prepared.hpp"
#include "sft/launch/request.hpp"
#include "sft/launch/site.hpp"
#include "start_model.hpp"

namespace {

namespace fs = std::filesystem;
using namespace sft;

/// All that a launch does, before any of it is done.
struct Plan {
  std::vector<launch::Prepared> preparations;
  std::string ini_path, ini_text;
  std::vector<std::string> run;  ///< the command that trains
  std::optional<int> threads_per_process;
};

fs::path program_folder() { return fs::read_symlink("/proc/self/exe").parent_path(); }

/// The folder of the profiles of this program, in its source tree or where it is installed.
std::string profiles_folder() {
  std::error_code ignored;
  for (fs::path folder = program_folder(); folder.has_relative_path(); folder = folder.parent_path()) {
    for (const char* place : {"inputs/profiles", "share/sft/inputs/profiles"}) {
      if (fs::is_directory(folder / place, ignored)) return (folder / place).string();
    }
  }
  return "inputs/profiles";
}

std::vector<std::string> options_of_prepare() {
  std::vector<std::string> names;
  const cli::Manual manual = apps::prepare_manual();
  for (const cli::ManualOption& option : manual.groups.front().options) names.push_back(option.name);
  return names;
}

/// Profile, file and command line, in this order: later ones win.
launch::Request read_request(apps::LaunchOptions options) {
  launch::Request request;
  const std::vector<std::string> known = options_of_prepare();
  const auto take_file = [&](const launch::ForeignFile& file) {
    for (const std::string& note : file.notes) log_warning(note);
    request.refused.insert(request.refused.end(), file.refused.begin(), file.refused.end());
    launch::take(request, file.settings, known);
  };
  launch::ForeignFile config;
  if (!options.config.empty()) config = launch::read_foreign_file(options.config);
  std::erase_if(config.settings, [&](const config::PlacedOption& setting) {
    if (setting.option.name != "accelerate_config") return false;
    if (options.accelerate_config.empty()) options.accelerate_config = setting.option.value.value_or("");
    return true;
  });
  if (!options.accelerate_config.empty()) {
    take_file(launch::read_foreign_file(launch::find_profile(options.accelerate_config, profiles_folder())));
  }
  take_file(config);
  launch::take(request, options.settings, known);
  return request;
}

bool names_any(const launch::Request& request, const std::vector<std::string>& names) {
  for (const auto& source : request.training) {
    for (const config::PlacedOption& setting : source) {
      const std::string name = setting.option.name.substr(setting.option.name.find('.') + 1);
      if (std::ranges::find(names, name) != names.end()) return true;
    }
  }
  return false;
}

/// Options of sft-prepare: those that were given, and TRL's defaults where they change rows.
std::map<std::string, std::string> preparation_of(const launch::Request& request) {
  std::map<std::string, std::string> options = request.preparation;
  options.emplace("packing", "false");
  if (!request.model.empty() && !options.contains("tokenizer")) {
    options["model_name_or_path"] = request.model;
    if (request.model_revision != "main") options["model_revision"] = request.model_revision;
  }
  return options;
}

/// Plans one call of sft-prepare; the shards of it are those of `pattern`.
std::string add_preparation(const launch::Request& request, const std::vector<std::string>& files,
                            const std::map<std::string, std::string>& options, const char* pattern, Plan& plan) {
  const std::string folder =
      options.contains("model_name_or_path") ? hub::find_model_folder(request.model, request.model_revision) : "";
  const std::string program = (program_folder() / "sft-prepare").string();
  plan.preparations.push_back(launch::plan_preparation(files, options, folder, program, request.prepared_dir));
  return fmt::format("{}/{}", plan.preparations.back().folder, pattern);
}

std::vector<std::string> files_of(const std::vector<launch::Dataset>& datasets) {
  std::vector<std::string> files;
  for (const launch::Dataset& dataset : datasets) {
    const std::vector<std::string> found = launch::find_files(dataset);
    files.insert(files.end(), found.begin(), found.end());
  }
  return files;
}

/// Files to evaluate on: those that are named, else the split for it of the data sets that are trained on.
std::vector<std::string> eval_files_of(const launch::Request& request) {
  if (!request.eval.empty()) return files_of(request.eval);
  std::vector<std::string> files;
  for (launch::Dataset dataset : request.train) {
    std::error_code ignored;
    if (!dataset.data_files.empty() || fs::is_regular_file(dataset.name, ignored)) continue;
    dataset.split = request.test_split;
    const std::vector<std::string> found = launch::find_files(dataset, /*is_optional=*/true);
    files.insert(files.end(), found.begin(), found.end());
  }
  return files;
}

/// What the launcher itself adds below all that was given: the files of rows, and TRL's defaults where they change
/// numbers.
std::vector<config::PlacedOption> plan_data(const launch::Request& request, Plan& plan) {
  std::vector<config::PlacedOption> settings;
  const auto set = [&](const char* name, const std::string& value) {
    settings.push_back({{name, value}, "by sft-launch"});
  };
  if (request.train.empty()) {
    if (names_any(request, {"train_files"})) return settings;
    throw_config_error("no data is given", "there is neither --dataset_name nor --data_files",
                       "give a file of JSON lines, a folder, or a name in the hub cache: --dataset_name DATA");
  }
  std::map<std::string, std::string> options = preparation_of(request);
  set("data.train_files", add_preparation(request, files_of(request.train), options, "train-*.h5", plan));
  std::string eval_files;
  if (options.contains("eval_split")) {
    eval_files = fmt::format("{}/eval-*.h5", plan.preparations.front().folder);
  } else if (const std::vector<std::string> files = eval_files_of(request); !files.empty()) {
    eval_files = add_preparation(request, files, options, "train-*.h5", plan);
  }
  if (eval_files.empty()) return settings;
  set("data.eval_files", eval_files);
  if (!names_any(request, {"eval_strategy", "evaluation_strategy", "eval_steps"})) set("train.eval_steps", "0");
  return settings;
}

/// The keys that differ from their defaults, and those that a person looks for first.
std::string ini_text_of(const config::Config& config) {
  static constexpr std::array<std::string_view, 6> always{
      "zero_stage = ",    "per_device_train_batch_size = ", "num_train_epochs = ", "precision = ", "learning_rate = ",
      "save_hub_model = "};
  const auto lines_of = [](const config::Config& whole) {
    std::vector<std::string> lines;
    std::istringstream text(config::to_ini(whole));
    for (std::string line; std::getline(text, line);) lines.push_back(line);
    return lines;
  };
  const std::vector<std::string> lines = lines_of(config), defaults = lines_of(config::Config());
  std::string text = "# Written by sft-launch. `sft THIS --print-config` shows every key.\n";
  std::string section, written;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const bool is_first = std::ranges::any_of(always, [&](auto name) { return lines[i].starts_with(name); });
    if (lines[i].starts_with('[')) section = lines[i];
    if (!is_first && lines[i] == defaults[i]) continue;
    if (section != written) text += fmt::format("\n{}\n", section);
    written = section;
    text += fmt::format("{}\n", lines[i]);
  }
  return text;
}

Plan make_plan(launch::Request request) {
  Plan plan;
  if (!request.refused.empty()) static_cast<void>(config::parse_sources(request.training, request.refused));
  config::Config config = config::parse_sources(request.training, {});
  if (config.model.model_name_or_path.empty() && config.model.hidden_size == 0) {
    throw_config_error("no model is given", "there is no --model_name_or_path",
                       "give a folder with config.json and weights, or a name in the hub cache");
  }
  request.training.insert(request.training.begin(), plan_data(request, plan));
  config = config::parse_sources(request.training, {});
  if (config.lora.use_peft && !names_any(request, {"lora_target_modules"})) {
    config.lora.lora_target_modules = {"q_proj", "v_proj"};
  }
  plan.ini_path = fmt::format("{}/launch.ini", config.train.output_dir);
  plan.ini_text = ini_text_of(config);
  std::vector<std::string> warnings;  // the run prints them
  const config::Config whole = apps::parse_with_model(plan.ini_text, {}, plan.ini_path, warnings);
  const launch::Site site = launch::find_site();
  const int num_ranks = launch::choose_num_ranks(request, whole, site);
  static_cast<void>(config::validate(whole, num_ranks));  // before hours go into its rows
  plan.threads_per_process = request.threads_per_process;
  plan.run = {(program_folder() / "sft-run").string()};
  const std::vector<std::string> start = launch::start_words(request, num_ranks, site);
  plan.run.insert(plan.run.end(), start.begin(), start.end());
  plan.run.push_back(plan.ini_path);
  return plan;
}

std::vector<std::string> command_of(const launch::Prepared& prepared) {
  std::vector<std::string> words{(program_folder() / "sft-prepare").string()};
  words.insert(words.end(), prepared.words.begin(), prepared.words.end());
  return words;
}

std::string shell_line(const std::vector<std::string>& words) {
  std::vector<std::string> quoted;
  for (const std::string& word : words) quoted.push_back(apps::shell_word(word));
  return fmt::format("{}", fmt::join(quoted, " "));
}

void print(const Plan& plan) {
  std::string text = fmt::format("# {}\n{}\n", plan.ini_path, plan.ini_text);
  for (const launch::Prepared& prepared : plan.preparations) {
    text += fmt::format("# {}\n{}\n", prepared.is_there ? "prepared before, not called again:" : "rows:",
                        shell_line(command_of(prepared)));
  }
  const std::string threads =
      plan.threads_per_process ? fmt::format("OMP_NUM_THREADS={} ", *plan.threads_per_process) : "";
  log_info(fmt::format("{}# training:\n{}{}", text, threads, shell_line(plan.run)));
}

/// The rows of the call, made now unless they are there. The exit status of sft-prepare.
int prepare(const launch::Prepared& prepared) {
  if (prepared.is_there) {
    log_info(fmt::format("Rows of the same files, tokenizer and options are there: {}", prepared.folder));
    return static_cast<int>(ExitStatus::done);
  }
  launch::remove_unfinished(prepared);
  const int status = launch::run_command(command_of(prepared));
  if (status == static_cast<int>(ExitStatus::done)) launch::mark_prepared(prepared);
  return status;
}

int run(const std::vector<std::string>& arguments) {
  const std::optional<apps::LaunchOptions> options = apps::read_launch_options(arguments);
  if (!options) return static_cast<int>(ExitStatus::done);
  const Plan plan = make_plan(read_request(*options));
  if (options->prints) {
    print(plan);
    return static_cast<int>(ExitStatus::done);
  }
  for (const launch::Prepared& prepared : plan.preparations) {
    if (const int status = prepare(prepared); status != static_cast<int>(ExitStatus::done)) return status;
  }
  io::make_folders(fs::path(plan.ini_path).parent_path().string());
  io::write_file_atomically(plan.ini_path, plan.ini_text);
  if (plan.threads_per_process) {
    ::setenv("OMP_NUM_THREADS", fmt::format("{}", *plan.threads_per_process).c_str(), /*replace=*/1);
  }
  log_info(shell_line(plan.run));
  launch::become_command(plan.run);
}

}  // namespace

int main(int argc, char** argv) {
  return run_alone([&] { return run(std::vector<std::string>(argv + 1, argv + argc)); });
}
