// SPDX-License-Identifier: Apache-2.0
// Finds how to train a model on a machine: mesh, stage, savings.
//
//   sft-plan MODEL_FOLDER --max_length 32k --rows 64 --machine h200x8x4
//   sft-plan INPUT.ini --machine machine.ini --tp_size 1 --apply planned.ini
//
// Exit status: 0 done; 2 configuration, also where nothing fits; 3 data; 1 anything else.

#include <fmt/core.h>
#include <array>
#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/common/flat_options.hpp"
#include "apps/common/machines.hpp"
#include "apps/common/open_datasets.hpp"
#include "apps/common/start_model.hpp"
#include "machine_here.hpp"
#include "options.hpp"
#include "report.hpp"
#include "sft/config/parse.hpp"
#include "sft/config/valid_config.hpp"
#include "sft/core/error.hpp"
#include "sft/core/log.hpp"
#include "sft/core/program.hpp"
#include "sft/io/file_kind.hpp"
#include "sft/io/files.hpp"
#include "sft/machine/node.hpp"
#include "sft/mesh/place.hpp"
#include "sft/model/modules.hpp"
#include "sft/planner/row_lengths.hpp"
#include "sft/rank/datasets.hpp"
#include "sft/rank/run_length.hpp"
#include "sft/rows/packed_dataset.hpp"

namespace {

using namespace sft;

/// The configuration of the command line; without `overrides`, what it is beside them.
config::Config read_config(const apps::PlanOptions& options, const std::vector<config::Option>& overrides) {
  std::error_code error;
  std::vector<std::string> warnings;
  config::Config config;
  if (options.is_model_name || std::filesystem::is_directory(options.model, error)) {
    std::vector<config::Option> all = overrides;
    all.push_back({"model.model_name_or_path", options.model});
    config = apps::parse_with_model("", all, options.model, warnings);
  } else {
    io::require_kind(options.model, io::Expected::configuration);
    config = apps::parse_with_model(io::read_file(options.model), overrides, options.model, warnings);
  }
  for (const std::string& warning : warnings) log_warning(warning);
  return config;
}

/// The keys that the command line gives, under their own names.
std::set<std::string> fixed_keys(const apps::PlanOptions& options, const config::Config& with) {
  std::set<std::string> names;
  for (const config::Option& option : options.overrides) {
    const std::size_t dot = option.name.rfind('.');
    names.insert(dot == std::string::npos ? option.name : option.name.substr(dot + 1));
  }
  // Names of other programs for a key change it.
  for (const config::Difference& key : config::differences(read_config(options, {}), with)) names.insert(key.name);
  return names;
}

simulator::Hardware find_hardware(const apps::PlanOptions& options, const config::Config& config) {
  const std::optional<int> num_ranks = apps::ranks_of_here(options.machine);
  return num_ranks ? apps::measure_here(*num_ranks, config, options.machine_file)
                   : apps::machine_named(options.machine);
}

/// OpenMP threads of a rank: of machines whose cores are known, their share.
int num_threads_on(const simulator::Hardware& hardware) {
  machine::Cores cores = machine::cores_of_this_process();
  if (hardware.cores_per_node > 0) cores.of_job = cores.of_rank = hardware.cores_per_node;
  return machine::num_threads_of_rank(cores, hardware.ranks_per_node);
}

/// The limits of micro-batches of these rows, found once for those that are dealt alike.
std::function<rows::MicroBatchLimits(const config::ValidConfig&)> measured_limits(
    const std::shared_ptr<const rank::Datasets>& datasets) {
  using Key = std::array<std::int64_t, 5>;
  return
      [datasets, known = std::make_shared<std::map<Key, rows::MicroBatchLimits>>()](const config::ValidConfig& config) {
        const Key key{config->train.per_device_train_batch_size, config->train.gradient_accumulation_steps,
                      mesh::Place(config, 0).data_size(), config->parallel.sp_size, config->parallel.token_slices()};
        const auto found = known->find(key);
        if (found != known->end()) return found->second;
        return known->emplace(key, rank::measure_limits(config, *datasets)).first->second;
      };
}

/// Rows that are there say how long they are.
void use_data(const apps::PlanOptions& options, planner::PlanTask& task) {
  const auto datasets =
      std::make_shared<const rank::Datasets>(rank::Datasets{rows::PackedDataset(task.base.data.train_files), {}});
  const std::int64_t max_length = datasets->train.max_length();
  if (options.max_length != 0 && options.max_length != max_length) {
    log_warning(fmt::format("--max_length {} is not that of data.train_files, {}: rows are taken to be full",
                            options.max_length, max_length));
    return;
  }
  task.max_length = max_length;
  task.lengths = planner::RowLengths::of(datasets->train);
  task.measured_limits = measured_limits(datasets);
}

planner::PlanTask make_task(const apps::PlanOptions& options) {
  const config::Config given = read_config(options, options.overrides);
  planner::PlanTask task{.base = given,
                         .fixed = {},
                         .searched = options.searched,
                         .hardware = find_hardware(options, given),
                         .max_length = options.max_length,
                         .rows_per_step = options.rows};
  task.fixed = fixed_keys(options, task.base);
  task.num_threads = num_threads_on(task.hardware);
  config::Config& base = task.base;
  base.model = config::validate(base.model)->model;  // with the sizes that follow from others
  model::check_modules(base);
  base.device.backend =
      task.hardware.kind == device::Kind::cuda ? config::BackendChoice::cuda : config::BackendChoice::cpu;
  if (base.train.offload_folder.empty()) base.train.offload_folder = base.train.output_dir;
  if (!base.data.train_files.empty()) use_data(options, task);
  if (task.max_length == 0) {
    throw_config_error("--max_length is missing", "there are no data.train_files that say how long rows are",
                       "give the tokens of a row, e.g. --max_length 32k");
  }
  if (base.data.train_files.empty()) base.data.train_files = {apps::no_data};
  return task;
}

/// Of the run on the rows that there are; 0: nobody says how many.
std::int64_t num_steps(const apps::PlanOptions& options, const planner::PlanTask& task,
                       const config::ValidConfig& config) {
  if (config->train.max_steps >= 0) return config->train.max_steps;
  std::int64_t num_rows = options.num_rows;
  if (num_rows == 0 && task.base.data.train_files.front() != apps::no_data) {
    num_rows = rows::PackedDataset(task.base.data.train_files).num_rows();
  }
  return num_rows == 0 ? 0 : rank::num_steps(config, num_rows);
}

/// What the best plan leaves room for, and what the run takes with it.
void judge_best(const apps::PlanOptions& options, apps::PlanReport& report) {
  if (report.result.best.empty()) return;
  const config::ValidConfig& best = report.result.best.front().config;
  constexpr std::int64_t step_tokens = 1024;
  report.longest_row = planner::longest_row(report.task, best, step_tokens * best->parallel.sp_size);
  report.largest_micro_batch = planner::largest_micro_batch(report.task, best);
  report.num_steps = num_steps(options, report.task, best);
  report.save = planner::plan_candidate_save(report.task, best);
}

void apply(const apps::PlanOptions& options, const apps::PlanReport& report) {
  const std::size_t number = options.explained > 0 ? options.explained : 1;
  config::Config config = *report.result.best.at(number - 1).config;
  if (config.data.train_files.front() == apps::no_data) config.data.train_files.clear();
  io::write_file_atomically(options.applied_to, config::to_ini(config));
  log_info(fmt::format("wrote {}: start it with `mpirun -np {} sft {}`\n", options.applied_to,
                       report.task.hardware.num_ranks(), options.applied_to));
}

/// Throws what is wrong with the configuration on any mesh, if that is why none is legal.
void require_any_mesh(const planner::PlanTask& task) {
  config::Config config = task.base;
  config.parallel = {};
  config.parallel.dp_shard_size = task.hardware.num_ranks();
  config::validate_data(config::validate(config, task.hardware.num_ranks()), task.max_length, config.model.vocab_size,
                        "the rows");
}

int run(const std::vector<std::string>& arguments) {
  std::optional<apps::PlanOptions> options = apps::read_plan_options(arguments);
  if (!options) return static_cast<int>(ExitStatus::done);
  options->overrides = apps::flat_options(options->overrides);
  const planner::PlanTask task = make_task(*options);
  const auto start = std::chrono::steady_clock::now();
  apps::PlanReport report{.task = task, .result = planner::search_plans(task)};
  report.obvious = planner::obvious_plan(task);
  report.smallest = planner::smallest_machine(task);
  judge_best(*options, report);
  report.search_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (report.result.counts.legal == 0) {
    require_any_mesh(task);
    throw_config_error(fmt::format("there is no legal way to train so on {} ranks", task.hardware.num_ranks()),
                       fmt::format("{} rows a step, rows of {} tokens and the keys that are given leave none",
                                   task.rows_per_step, task.max_length),
                       "give other --rows, a multiple of the ranks that read different rows, or fewer keys");
  }
  const int explained = std::min(options->explained, static_cast<int>(report.result.best.size()));
  log_info(options->json ? apps::to_json(report) : apps::describe(report, explained));
  if (report.result.best.empty()) return static_cast<int>(ExitStatus::configuration);
  if (!options->applied_to.empty()) apply(*options, report);
  return static_cast<int>(ExitStatus::done);
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  return sft::run_alone([&] { return run(arguments); });
}
