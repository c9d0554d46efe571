// SPDX-License-Identifier: Apache-2.0
// One command from a model and records to a trained, evaluated and exported model:
//
//   sft-launch sft --model_name_or_path MODEL --dataset_name DATA --accelerate_config zero3 --max_length 4096 --packing

#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/common/find_script.hpp"
#include "apps/common/machines.hpp"
#include "apps/common/model_folder.hpp"
#include "apps/common/prepare_options.hpp"
#include "apps/common/start_model.hpp"
#include "data.hpp"
#include "fetch.hpp"
#include "hub_upload.hpp"
#include "options.hpp"
#include "sft/config/keys_given.hpp"
#include "sft/config/step_shares.hpp"
#include "sft/config/valid_config.hpp"
#include "sft/core/error.hpp"
#include "sft/core/log.hpp"
#include "sft/core/program.hpp"
#include "sft/core/shell_word.hpp"
#include "sft/hub/adapter_config.hpp"
#include "sft/hub/file_layout.hpp"
#include "sft/io/files.hpp"
#include "sft/launch/command.hpp"
#include "sft/launch/foreign_file.hpp"
#include "sft/launch/hostfile.hpp"
#include "sft/launch/prepared.hpp"
#include "sft/launch/request.hpp"
#include "sft/launch/site.hpp"
#include "sft/model/modules.hpp"
#include "sizes.hpp"

namespace {

namespace fs = std::filesystem;
using namespace sft;

/// All that a launch does, before any of it is done.
struct Plan {
  apps::LaunchData data;
  std::string ini_path, ini_text;
  std::vector<std::string> run;  ///< the command that trains
  std::string sizes;             ///< why sizes that are auto became what they are; empty: none are
  std::vector<std::pair<std::string, std::string>> environment;  ///< variables of the run
  std::optional<apps::HubUpload> upload;                         ///< of what the run leaves; none: it stays here
};

using apps::program_folder;

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
    if (!launch::names_data(options.settings)) {
      request.refused.insert(request.refused.end(), file.refused_data.begin(), file.refused_data.end());
    }
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
  const launch::ForeignFile typed = launch::lay_flat(options.settings);
  take_file(typed);
  request.notes.insert(request.notes.end(), typed.notes.begin(), typed.notes.end());
  std::vector<config::PlacedOption> of_user = request.passed;  // and not of a profile
  for (std::size_t i = options.accelerate_config.empty() ? 0 : 1; i < request.training.size(); ++i) {
    of_user.insert(of_user.end(), request.training[i].begin(), request.training[i].end());
  }
  const std::vector<std::string> notes = config::notes_on(of_user);
  request.notes.insert(request.notes.end(), notes.begin(), notes.end());
  return request;
}

/// The keys that differ from their defaults, those that a person looks for first, and those of `given` that say what
/// the model is, because it may say another than the default.
std::string ini_text_of(const config::Config& config, const std::set<std::string>& given) {
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
    const std::string name = fmt::format("model.{}", lines[i].substr(0, lines[i].find(" =")));
    const bool is_of_model = section == "[model]" && given.contains(name);
    if (!is_first && !is_of_model && lines[i] == defaults[i]) continue;
    if (section != written) text += fmt::format("\n{}\n", section);
    written = section;
    text += fmt::format("{}\n", lines[i]);
  }
  return text;
}

/// What is not here of model and data comes from the hub.
void fetch_all(const launch::Request& request) {
  apps::fetch_model(request.model, request.model_revision);
  for (const auto* datasets : {&request.train, &request.eval}) {
    for (const launch::Dataset& dataset : *datasets) apps::fetch_dataset(dataset.name);
  }
}

/// The layers that PEFT 0.21 adapts where none are named.
void set_default_targets(config::Config& config) {
  const std::string folder = apps::find_origin(config.model);
  const hub::FileLayout layout = folder.empty() ? hub::FileLayout{} : hub::read_file_layout(folder);
  config.lora.lora_target_modules = hub::default_targets(layout, config.lora.adapts_experts());
}

/// Gives `dtype = auto` the dtype of the model's weights.
void settle_dtype(launch::Request& request, const config::Model& model) {
  std::vector<config::Option> all;
  for (const auto& source : request.training) {
    for (const config::PlacedOption& placed : source) all.push_back(placed.option);
  }
  if (!config::is_dtype_of_model("", all, "")) return;
  std::vector<std::string> notes;
  const std::string dtype = apps::dtype_of_model(apps::find_start_model(model), notes);
  request.training.back().push_back({{"dtype", dtype}, "by sft-launch"});
  for (const std::string& note : notes) log_warning(note);
}

/// Gives each machine a copy of the model where a strategy of FSDP shards within machines, or says what it is taken as.
void place_copies(launch::Request& request, const launch::Site& site) {
  const std::optional<config::PlacedOption> strategy = launch::hybrid_strategy(request.training);
  if (!strategy || request.gives("dp_replicate_size")) return;
  const bool has_hosts = !request.hostfile.empty() && request.launcher.empty();
  const int num_hosts = has_hosts ? launch::read_hostfile(request.hostfile).num_hosts : site.num_nodes;
  const int num_machines = request.num_machines.value_or(num_hosts);
  if (num_machines > 1) {
    request.training.push_back({{{"parallel.dp_replicate_size", fmt::format("{}", num_machines)}, strategy->place}});
    return;
  }
  log_warning(launch::note_on_one_copy(*strategy, "the number of machines is not known or 1"));
}

Plan make_plan(launch::Request request, const apps::LaunchOptions& options) {
  Plan plan;
  // 1. All refusals at once, before anything is looked for
  const config::StepShares shares = config::take_step_shares(request.training);  // which the run makes steps of
  if (!request.train.empty()) apps::check_preparation(request);
  if (!request.refused.empty()) static_cast<void>(config::parse_sources(request.training, request.refused));
  const launch::Site site = launch::find_site();
  place_copies(request, site);
  config::Config config = config::parse_sources(request.training, {});
  if (config.model.model_name_or_path.empty() && config.model.hidden_size == 0) {
    throw_config_error("no model is given", "there is no --model_name_or_path",
                       "give a folder with config.json and weights, or a name in the hub cache");
  }

  for (const std::string& note : request.notes) log_warning(note);
  if (request.hub.is_wanted) plan.upload.emplace(request, config, options.prints);

  // 2. Model and data
  if (!options.prints) fetch_all(request);
  settle_dtype(request, config.model);
  request.training.insert(request.training.begin(), apps::plan_data(request, shares.eval_steps.has_value(), plan.data));
  config = config::parse_sources(request.training, {});
  if (config.lora.use_peft && !request.gives("lora_target_modules")) set_default_targets(config);
  plan.ini_path = fmt::format("{}/launch.ini", config.train.output_dir);

  const std::set<std::string> given = config::keys_given(request.training);
  // 3. Sizes, and whether all of it can run, before hours go into its rows
  std::vector<std::string> warnings;  // the run prints them
  config::Config whole = apps::parse_with_model(ini_text_of(config, given), {}, plan.ini_path, warnings);
  plan.sizes = apps::choose_launch_sizes(request, site, options.machine, whole, config);
  plan.ini_text = ini_text_of(config, given);
  if (!shares.is_empty()) plan.ini_text += "\n# shares of all steps\n" + config::to_ini(shares);
  const int num_ranks = launch::choose_num_ranks(request, whole, site);
  if (const std::string idle = launch::idle_part(request, whole, site, num_ranks); !idle.empty()) log_warning(idle);
  if (config::validate(whole, num_ranks, model::check_modules)->leaves_model_folder())
    apps::require_writable(whole.model);

  // 4. How it starts
  plan.environment = request.environment;
  if (request.threads_per_process) {
    plan.environment.emplace_back("OMP_NUM_THREADS", fmt::format("{}", *request.threads_per_process));
  }
  plan.run = {(program_folder() / "sft-run").string()};
  if (request.max_restarts) {
    plan.run.insert(plan.run.end(), {"--restarts", fmt::format("{}", *request.max_restarts)});
  }
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
  for (const std::string& word : words) quoted.push_back(shell_word(word));
  return fmt::format("{}", fmt::join(quoted, " "));
}

void print(const Plan& plan) {
  std::string text = fmt::format("# {}\n{}\n", plan.ini_path, plan.ini_text);
  for (const std::string& line : plan.data.files_read) text += fmt::format("# {}\n", line);
  for (const launch::Prepared& prepared : plan.data.preparations) {
    text += fmt::format("# {}\n{}\n", prepared.is_there ? "prepared before, not called again:" : "rows:",
                        shell_line(command_of(prepared)));
  }
  std::string variables;
  for (const auto& [name, value] : plan.environment) variables += fmt::format("{}={} ", name, shell_word(value));
  if (!plan.sizes.empty()) text += fmt::format("# sizes that are auto: {}\n", plan.sizes);
  text += fmt::format("# training:\n{}{}", variables, shell_line(plan.run));
  if (plan.upload) {
    text += "\n# when it is over:";
    for (const std::vector<std::string>& words : plan.upload->commands()) text += "\n" + shell_line(words);
  }
  log_info(text);
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
  launch::Request request = read_request(*options);
  for (const auto& [name, value] : request.environment) ::setenv(name.c_str(), value.c_str(), /*replace=*/1);
  Plan plan = make_plan(std::move(request), *options);
  if (options->prints) {
    print(plan);
    return static_cast<int>(ExitStatus::done);
  }
  for (const std::string& line : plan.data.files_read) log_info(line);
  if (!plan.sizes.empty()) log_info(fmt::format("sizes: {}", plan.sizes));
  io::make_folders(fs::path(plan.ini_path).parent_path().string());
  io::write_file_atomically(plan.ini_path, plan.ini_text);
  if (plan.upload) plan.upload->begin(plan.ini_path);
  for (const launch::Prepared& prepared : plan.data.preparations) {
    if (const int status = prepare(prepared); status != static_cast<int>(ExitStatus::done)) return status;
  }
  for (const auto& [name, value] : plan.environment) ::setenv(name.c_str(), value.c_str(), /*replace=*/1);
  log_info(shell_line(plan.run));
  if (!plan.upload) launch::become_command(plan.run);
  const int status = launch::run_command(plan.run);
  if (status == static_cast<int>(ExitStatus::done)) plan.upload->finish();
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  return run_alone([&] { return run(std::vector<std::string>(argv + 1, argv + argc)); });
}
