// SPDX-License-Identifier: Apache-2.0
#include "run_config.hpp"

#include <fmt/core.h>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/common/flat_options.hpp"
#include "apps/common/input_file.hpp"
#include "apps/common/model_folder.hpp"
#include "apps/common/open_datasets.hpp"
#include "apps/common/start_model.hpp"
#include "sft/checkpoint/checkpoint.hpp"
#include "sft/comm/launcher.hpp"
#include "sft/comm/session.hpp"
#include "sft/config/parse.hpp"
#include "sft/config/step_shares.hpp"
#include "sft/core/error.hpp"
#include "sft/core/log.hpp"
#include "sft/launch/foreign_file.hpp"
#include "sft/launch/request.hpp"
#include "sft/model/modules.hpp"
#include "sft/rank/run_length.hpp"
#include "sft/rows/packed_dataset.hpp"

namespace sft::apps {

namespace {

/// The .ini text for a file of Accelerate, DeepSpeed, TRL, Axolotl or LLaMA-Factory and the command line.
std::string ini_of_foreign_file(const SftOptions& command, int num_ranks, config::StepShares& shares,
                                std::vector<std::string>& warnings) {
  const launch::ForeignFile file = launch::read_foreign_file(command.input_file);
  warnings.insert(warnings.end(), file.notes.begin(), file.notes.end());
  std::vector<config::PlacedOption> overrides;
  for (const config::Option& option : flat_options(command.overrides)) {
    overrides.push_back({option, "on the command line"});
  }
  std::vector<std::vector<config::PlacedOption>> sources{launch::settings_of_run(file.settings, num_ranks, warnings),
                                                         overrides};
  const auto strategy = launch::hybrid_strategy(sources);
  if (strategy && !launch::gives_key(sources, "dp_replicate_size")) {
    warnings.push_back(launch::note_on_one_copy(*strategy, "nothing says how many there are to be"));
  }
  std::vector<config::PlacedOption> all = sources.front();
  all.insert(all.end(), overrides.begin(), overrides.end());
  for (const std::string& note : config::notes_on(all)) warnings.push_back(note);
  shares = config::take_step_shares(sources);
  std::vector<std::string> refused = file.refused;
  refused.insert(refused.end(), file.refused_data.begin(), file.refused_data.end());
  const config::Config config = config::parse_sources(sources, refused);
  std::string text;
  for (const config::Difference& key : config::differences(config::Config(), config)) {
    text += fmt::format("[{}]\n{} = {}\n", key.section, key.name, key.now);
  }
  return text;
}

/// The steps of the whole run, for those that are shares of them.
std::int64_t steps_of_run(const config::Config& config, const SftOptions& command, int num_ranks) {
  if (config.train.max_steps >= 0) return config.train.max_steps;
  const config::ValidConfig valid = config::validate(config, num_ranks > 0 ? num_ranks : num_ranks_of(config.parallel));
  const std::int64_t num_rows = command.num_rows > 0     ? command.num_rows
                                : command.max_length > 0 ? valid->effective_batch_rows()
                                                         : rows::PackedDataset(config.data.train_files).num_rows();
  return rank::num_steps(valid, num_rows);
}

/// Text of an .ini file without variables, from the file and the options of this process's command line: the model's
/// sizes and parts in it wherever they come from, and the order of rows of the run that goes on.
std::string resolve(const SftOptions& command, int num_ranks) {
  if (command.input_file.empty() && command.overrides.empty()) {
    throw_config_error("no run is described", "there is neither a file nor an option",
                       "give a configuration, `mpirun -np N ./sft INPUT.ini`; --help lists the keys");
  }
  std::vector<std::string> warnings;
  config::Config config;
  config::StepShares shares;
  if (launch::is_foreign_file(command.input_file)) {
    const std::string text = ini_of_foreign_file(command, num_ranks, shares, warnings);
    config = parse_with_model(text, {}, command.input_file, warnings);
  } else {
    std::string text = read_input_file(command.input_file);
    std::vector<config::Option> overrides = flat_options(command.overrides);
    std::vector<config::PlacedOption> placed;
    for (const config::Option& option : overrides) placed.push_back({option, "on the command line"});
    warnings = config::notes_on(placed);
    shares = config::take_step_shares(text, overrides, command.input_file);
    config = parse_with_model(text, overrides, command.input_file, warnings);
  }
  for (const std::string& warning : warnings) log_warning(warning);
  if (command.max_length > 0) {
    if (!config.data.train_files.empty()) {
      throw_config_error("--max_length and data.train_files are given", "the rows that there are have a length",
                         "leave --max_length out, or data.train_files to plan without data");
    }
    config.data.train_files = {no_data};
  }
  if (!shares.is_empty()) config::apply_step_shares(shares, steps_of_run(config, command, num_ranks), config);
  if (command.action != SftOptions::Action::print_config &&
      config.data.row_order == config::RowOrder::automatic) {  // memory is planned for it, before the run is restored
    if (const auto header = checkpoint::header_of_resume(config)) config.data.row_order = header->position.row_order;
  }
  return config::to_ini(config);
}

/// Rank 0 reads the file, with its environment; all ranks get the same configuration, of any number of ranks.
/// Collective.
config::Config read_keys(const SftOptions& command, const comm::Group& world) {
  std::string text;
  config::Config config;
  world.agree([&] {
    try {
      const bool is_of_world = command.action == SftOptions::Action::run;
      const int num_ranks = command.num_ranks > 0 ? command.num_ranks : is_of_world ? world.size() : 0;
      if (world.rank() == 0) text = resolve(command, num_ranks);
    } catch (const Error& error) {
      throw comm::SharedError(error.status(), error.what());
    }
  });
  world.broadcast(text, 0);
  world.agree([&] { config = config::parse(text, {}, "the configuration of rank 0"); });
  return config;
}

/// Collective over `world`.
void require_one_rank(const SftOptions& command, const comm::Group& world) {
  if (!command.plans_for_others() || world.size() == 1) return;
  const char* const option = command.action == SftOptions::Action::dry_run ? "--dry-run" : "--compile-attention";
  throw comm::SharedError(ExitStatus::configuration, fmt::format("{} was started on {} ranks", option, world.size()),
                          "one rank plans for all", "start it without mpirun, with --num_ranks for their number");
}

/// Validates it for the ranks that there are or that are planned. Collective.
config::ValidConfig validate(const config::Config& config, const SftOptions& command, const comm::Group& world) {
  std::optional<config::ValidConfig> valid;
  world.agree([&] {
    const int num_ranks = command.plans_for_others() ? num_ranks_of(config.parallel) : world.size();
    valid = config::validate(config, command.num_ranks > 0 ? command.num_ranks : num_ranks, model::check_modules);
  });
  return *valid;
}

}  // namespace

config::ValidConfig read_config(const SftOptions& command, const comm::Group& world) {
  require_one_rank(command, world);
  config::ValidConfig config = validate(read_keys(command, world), command, world);
  world.agree([&] {
    try {
      if (world.rank() == 0 && config->leaves_model_folder()) require_writable(config->model);
    } catch (const Error& error) {
      throw comm::SharedError(error.status(), error.what());
    }
  });
  return config;
}

config::Config printed_config(const SftOptions& command) {
  const int num_launched = comm::num_launched_ranks();
  const config::Config keys = config::parse(resolve(command, /*num_ranks=*/0), {}, "the configuration");
  const int num_ranks = num_launched > 1 ? num_launched : num_ranks_of(keys.parallel);
  config::Config config = *config::validate(keys, num_ranks, model::check_modules);
  if (num_launched <= 1) config.parallel.dp_shard_size = keys.parallel.dp_shard_size;
  return config;
}

}  // namespace sft::apps
